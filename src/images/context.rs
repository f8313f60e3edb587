//! The build context of an image: the tar that a daemon builds it from, the same bytes on every machine.

use std::{fmt::Write as _, io};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::catalogue::BuiltIn;

/// Bytes of a version: enough to tell any two contexts apart, short enough to be read.
const VERSION_BYTES: usize = 12;

/// What an image is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The tar.
    pub tar: Bytes,
    /// A hash of it. An image that carries it as a label was built from exactly this.
    pub version: String,
}

impl Context {
    /// The context of a built-in image: its Dockerfile with what that copies, and what all of them share.
    ///
    /// Nothing in it depends on the machine or the time: no owner, no date, modes that are set here.
    pub fn new(image: &BuiltIn) -> io::Result<Self> {
        let mut tar = tar::Builder::new(Vec::new());
        for file in image.files() {
            let mut header = tar::Header::new_ustar();
            header.set_size(file.content.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            tar.append_data(&mut header, file.path, file.content.as_bytes())?;
        }
        let tar = tar.into_inner()?;
        let mut version = String::with_capacity(2 * VERSION_BYTES);
        for byte in Sha256::digest(&tar).iter().take(VERSION_BYTES) {
            // Writing to a `String` cannot fail.
            let _ = write!(version, "{byte:02x}");
        }
        Ok(Self {
            tar: tar.into(),
            version,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::images::catalogue;

    #[test]
    fn a_context_is_the_same_each_time_and_differs_by_image() {
        let mut versions = std::collections::BTreeSet::new();
        for image in catalogue().unwrap() {
            let context = Context::new(&image).unwrap();
            assert_eq!(context, Context::new(&image).unwrap());
            assert_eq!(context.version.len(), 2 * VERSION_BYTES);
            assert!(versions.insert(context.version));
        }
    }

    #[test]
    fn it_holds_the_dockerfile_and_the_shared_scripts() {
        for image in catalogue().unwrap() {
            let context = Context::new(&image).unwrap();
            let mut archive = tar::Archive::new(&context.tar[..]);
            let mut names = Vec::new();
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                let name = entry.path().unwrap().to_string_lossy().into_owned();
                let mut text = String::new();
                entry
                    .by_ref()
                    .take(1 << 20)
                    .read_to_string(&mut text)
                    .unwrap();
                if name == image.dockerfile() {
                    assert!(text.contains("FROM debian:trixie-slim"));
                }
                names.push(name);
            }
            assert!(names.iter().any(|name| name == image.dockerfile()));
            assert!(names.iter().any(|name| name == "common/base.sh"));
        }
    }
}
