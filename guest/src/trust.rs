//! The file that tells programs which certificates to trust: those of the image and the server's own.
//!
//! It lies in `/tmp`, where a former program of the session may have left links, directories and
//! rights of its own. Nothing here may follow a link of theirs or leave half a file; what cannot be
//! set right fails, and then there is no way out.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use belljar_wire::message::GuestError;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::beneath::{Missing, Root};
use crate::files::Files;

/// What the file is beneath: a mount of the sandbox's own.
const TMP: &str = "/tmp";
/// The directory of the file, beneath [`TMP`].
const DIRECTORY: &[u8] = b".belljar";
/// The file, beneath [`TMP`]: [`belljar_wire::message::TRUST_FILE`].
const FILE: &[u8] = b".belljar/ca.pem";

/// Where images keep the certificates that they trust; the first that is there is taken. Those of
/// Debian and Alpine, Fedora, SUSE, and what OpenSSL is built to read elsewhere.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// The most bytes of an image's bundle; usual ones have 200 KiB. Stops an image from filling the
/// guest's memory.
const MAX_BUNDLE: u64 = 2 * 1024 * 1024;

/// The file, while it is there.
#[derive(Debug)]
pub(crate) struct TrustFile {
    tmp: Files,
}

impl TrustFile {
    /// Writes the file, in the place of whatever is there: the image's certificates, then `trust`.
    pub(crate) fn write(trust: &[u8]) -> Result<Self, GuestError> {
        // What a program may have taken from the directories.
        chmod(TMP, 0o1777);
        let root = Root::open(TMP).map_err(crate::beneath::error)?;
        // A link or a file where the directory must be, a directory where the file must be. Each
        // fails where it is not so, as it mostly is.
        remove(&root, DIRECTORY, UnlinkatFlags::NoRemoveDir);
        chmod("/tmp/.belljar", 0o755);
        remove(&root, FILE, UnlinkatFlags::RemoveDir);
        let mut content = bundle();
        if content.last().is_some_and(|last| *last != b'\n') {
            content.push(b'\n');
        }
        content.extend_from_slice(trust);
        let file = Self {
            tmp: Files::new(root),
        };
        file.tmp.write(FILE, &content)?;
        Ok(file)
    }
}

impl Drop for TrustFile {
    fn drop(&mut self) {
        self.tmp.remove(FILE);
        remove(self.tmp.root(), DIRECTORY, UnlinkatFlags::RemoveDir);
    }
}

/// Changes the mode of something in the sandbox. A link that a program put there in this moment leads
/// to what it could change itself.
fn chmod(path: &str, mode: u32) {
    let mode = Mode::from_bits_truncate(mode);
    let _ = fchmodat(AT_FDCWD, path, mode, FchmodatFlags::FollowSymlink);
}

fn remove(root: &Root, path: &[u8], flags: UnlinkatFlags) {
    if let Ok(place) = root.place(path, Missing::Refuse) {
        let _ = unlinkat(place.directory.as_fd(), place.name.as_c_str(), flags);
    }
}

/// The certificates that the image trusts; nothing where it has none.
fn bundle() -> Vec<u8> {
    BUNDLES
        .iter()
        .find_map(|path| read(path))
        .unwrap_or_default()
}

/// The content of a regular file. Links are followed: images have them here, and nothing that they
/// lead to is hidden from the programs.
#[expect(clippy::disallowed_methods, reason = "read through `take`")]
fn read(path: &str) -> Option<Vec<u8>> {
    let mut options = File::options();
    // The opening of a FIFO returns at once; the check below refuses it.
    options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path).ok()?;
    let metadata = file.metadata().ok()?;
    // A length of nothing is that of the kernel's own files, which may wait when they are read.
    if !metadata.is_file() || !(1..=MAX_BUNDLE).contains(&metadata.len()) {
        return None;
    }
    let mut content = Vec::new();
    file.take(MAX_BUNDLE).read_to_end(&mut content).ok()?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_the_one_that_the_server_names() {
        let path = format!("{TMP}/{}", String::from_utf8_lossy(FILE));
        assert_eq!(path, belljar_wire::message::TRUST_FILE);
        assert!(FILE.starts_with(DIRECTORY));
    }
}
