//! Paths beneath the workspace, resolved one component at a time without following a link.
//!
//! The server checks its callers' paths; this is the wall that holds when a program has put a link
//! where a directory was. Nothing here may open anything but directories and regular files, and
//! nothing may wait (a FIFO that nobody writes).

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use belljar_wire::limits::{MAX_DEPTH, MAX_PATH};
use belljar_wire::message::GuestError;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};

/// How a directory on the way is opened.
const DIRECTORY: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The workspace.
#[derive(Clone, Debug)]
pub(crate) struct Root(Rc<OwnedFd>);

/// A name in a directory that is beneath the workspace.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: Step,
    pub(crate) name: CString,
}

/// A directory that is beneath the workspace, or the workspace itself.
#[derive(Debug)]
pub(crate) enum Step {
    Root(Root),
    Below(OwnedFd),
}

impl AsFd for Step {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => root.0.as_fd(),
            Self::Below(fd) => fd.as_fd(),
        }
    }
}

/// What to do with a directory that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Make,
    Refuse,
}

impl Root {
    /// Opens the workspace.
    pub(crate) fn open(path: &str) -> nix::Result<Self> {
        Ok(Self(Rc::new(open(path, DIRECTORY, Mode::empty())?)))
    }

    /// Resolves all but the last component.
    pub(crate) fn place(&self, path: &[u8], missing: Missing) -> Result<Place, GuestError> {
        let mut names = components(path)?;
        let name = names.pop().ok_or(GuestError::NotRegular)?;
        Ok(Place {
            directory: self.descend(&names, missing)?,
            name,
        })
    }

    /// Opens a directory for reading its entries. The empty path is the workspace.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<OwnedFd, GuestError> {
        let names = if path.is_empty() {
            Vec::new()
        } else {
            components(path)?
        };
        open_directory(self.descend(&names, Missing::Refuse)?, c".")
    }

    fn descend(&self, names: &[CString], missing: Missing) -> Result<Step, GuestError> {
        let mut step = Step::Root(self.clone());
        for name in names {
            if missing == Missing::Make {
                match mkdirat(
                    step.as_fd(),
                    name.as_c_str(),
                    Mode::from_bits_truncate(0o755),
                ) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(errno) => return Err(error(errno)),
                }
            }
            let next = openat(step.as_fd(), name.as_c_str(), DIRECTORY, Mode::empty());
            step = Step::Below(next.map_err(error)?);
        }
        Ok(step)
    }
}

/// Opens a directory for reading its entries, if it is one and no link.
pub(crate) fn open_directory(at: impl AsFd, name: &std::ffi::CStr) -> Result<OwnedFd, GuestError> {
    let flags = OFlag::O_RDONLY
        | OFlag::O_DIRECTORY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_CLOEXEC;
    openat(at, name, flags, Mode::empty()).map_err(error)
}

impl Place {
    /// Opens the regular file that is there for reading.
    pub(crate) fn open_file(&self) -> Result<(OwnedFd, FileStat), GuestError> {
        // O_NONBLOCK: the opening of a FIFO or a device returns at once; the check below refuses it.
        let flags = OFlag::O_RDONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        let file = openat(
            self.directory.as_fd(),
            self.name.as_c_str(),
            flags,
            Mode::empty(),
        )
        .map_err(|errno| match errno {
            // A link; a socket; a device without a driver.
            Errno::ELOOP | Errno::ENXIO | Errno::ENODEV => GuestError::NotRegular,
            errno => error(errno),
        })?;
        let stat = fstat(&file).map_err(error)?;
        if is_kind(&stat, SFlag::S_IFREG) {
            Ok((file, stat))
        } else {
            Err(GuestError::NotRegular)
        }
    }
}

/// Whether the file is of this kind.
pub(crate) fn is_kind(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
}

/// The names in a relative path.
fn components(path: &[u8]) -> Result<Vec<CString>, GuestError> {
    if path.len() > MAX_PATH {
        return Err(GuestError::PathTooLong);
    }
    let mut names = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        if matches!(component, b"" | b"." | b"..") {
            return Err(GuestError::OutsideWorkspace);
        }
        if names.len() == MAX_DEPTH {
            return Err(GuestError::PathTooLong);
        }
        names.push(CString::new(component).map_err(|_| GuestError::OutsideWorkspace)?);
    }
    Ok(names)
}

/// What an error of the kernel means here.
pub(crate) fn error(errno: Errno) -> GuestError {
    match errno {
        Errno::ENOENT => GuestError::NotFound,
        Errno::ENOTDIR => GuestError::NotDirectory,
        Errno::ELOOP => GuestError::OutsideWorkspace,
        Errno::ENAMETOOLONG => GuestError::PathTooLong,
        // EFBIG: the container's limit on the size of one file, which is the workspace's size.
        Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => GuestError::NoSpace,
        Errno::EISDIR | Errno::EEXIST | Errno::ENOTEMPTY => GuestError::Exists,
        Errno::EACCES | Errno::EPERM => GuestError::Denied,
        other => GuestError::Io {
            errno: other as i32,
        },
    }
}
