//! Paths beneath the workspace, parsed once.
//!
//! A path is bytes, since the names that hostile code makes need not be UTF-8. It is shown with visible
//! escapes, and parsed from exactly what was shown. It never leads out of the workspace by its text;
//! that it does not do so by a link is the guest's to keep.

use std::fmt;

use super::visible;

/// The longest path, in bytes: the kernel's `PATH_MAX`, less the workspace's own prefix.
pub const MAX_PATH_BYTES: usize = 4000;
/// The longest name of one component, in bytes: the kernel's `NAME_MAX`.
const MAX_NAME_BYTES: usize = 255;
/// The most components: a deeper tree is somebody trying out a walker.
const MAX_DEPTH: usize = 64;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing was named.
    #[error("the path is empty: name a file relative to the workspace, such as data/in.csv")]
    Empty,
    /// An absolute path.
    #[error("the path is absolute: paths are relative to the workspace")]
    Absolute,
    /// A `..`, `.` or empty component.
    #[error("the path has an empty, `.` or `..` component: name the file directly")]
    Component,
    /// A NUL byte.
    #[error("the path has a NUL byte")]
    Nul,
    /// Longer than the kernel takes.
    #[error(
        "the path is too long: at most {MAX_PATH_BYTES} bytes, {MAX_NAME_BYTES} a component, {MAX_DEPTH} components"
    )]
    TooLong,
    /// A backslash that begins no escape of ours.
    #[error(
        "the path has a backslash that begins no known escape: a backslash itself is written \\\\"
    )]
    Escape,
}

/// A path relative to the workspace, without `.` or `..`, as bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspacePath(Vec<u8>);

impl WorkspacePath {
    /// Parses a path as a client writes it: in the form in which names are shown.
    pub fn parse(shown: &str) -> Result<Self, PathError> {
        Self::from_bytes(visible::unescape(shown).ok_or(PathError::Escape)?)
    }

    /// Checks raw bytes, such as the guest reports; they may be hostile.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, PathError> {
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes.contains(&0) {
            return Err(PathError::Nul);
        }
        if bytes[0] == b'/' {
            return Err(PathError::Absolute);
        }
        if bytes.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        let mut depth = 0;
        for name in bytes.split(|&b| b == b'/') {
            depth += 1;
            if name.len() > MAX_NAME_BYTES || depth > MAX_DEPTH {
                return Err(PathError::TooLong);
            }
            if matches!(name, b"" | b"." | b"..") {
                return Err(PathError::Component);
            }
        }
        Ok(Self(bytes))
    }

    /// The path's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path with visible escapes: [`Self::parse`] gives the same path back.
    #[must_use]
    pub fn shown(&self) -> String {
        visible::escape_name(&self.0)
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl fmt::Debug for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_leads_out() {
        for (bad, why) in [
            ("", PathError::Empty),
            ("/etc/x", PathError::Absolute),
            ("../x", PathError::Component),
            ("a/../../x", PathError::Component),
            ("a//b", PathError::Component),
            ("./a", PathError::Component),
            ("a/", PathError::Component),
            ("a\0b", PathError::Nul),
            ("a\\x00b", PathError::Nul),
            ("\\x2e\\x2e/x", PathError::Component),
            ("a\\qb", PathError::Escape),
        ] {
            assert_eq!(WorkspacePath::parse(bad), Err(why), "{bad:?}");
        }
        assert_eq!(
            WorkspacePath::parse(&"a/".repeat(70)),
            Err(PathError::TooLong)
        );
        assert_eq!(
            WorkspacePath::parse(&"a".repeat(256)),
            Err(PathError::TooLong)
        );
        assert_eq!(
            WorkspacePath::parse("in/my däta.bin").unwrap().as_bytes(),
            "in/my däta.bin".as_bytes()
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_parses_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(path) = WorkspacePath::from_bytes(bytes) {
                prop_assert_eq!(WorkspacePath::parse(&path.shown()), Ok(path));
            }
        }
    }
}
