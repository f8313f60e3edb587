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
use nix::unistd::{UnlinkatFlags, unlinkat};

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
    /// The directories on the way that were not there before.
    made: Made,
}

/// Directories that were made on the way to a place. Kept, unless whatever they were made for fails: nothing
/// partial may stay.
#[derive(Debug)]
struct Made {
    root: Root,
    names: Vec<CString>,
    /// How many of `names`, from the front, were there.
    before: usize,
}

impl Made {
    /// Removes them again, from the innermost, as far as they are empty.
    fn undo(&self) {
        for depth in (self.before + 1..=self.names.len()).rev() {
            let (parents, name) = (&self.names[..depth - 1], &self.names[depth - 1]);
            let Ok((parent, _)) = self.root.descend(parents, Missing::Refuse) else {
                return;
            };
            if unlinkat(parent.as_fd(), name.as_c_str(), UnlinkatFlags::RemoveDir).is_err() {
                return;
            }
        }
    }
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
        let (directory, before) = self.descend(&names, missing)?;
        let made = Made {
            root: self.clone(),
            names,
            before,
        };
        Ok(Place {
            directory,
            name,
            made,
        })
    }

    /// Opens a directory for reading its entries. The empty path is the workspace.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<OwnedFd, GuestError> {
        let names = if path.is_empty() {
            Vec::new()
        } else {
            components(path)?
        };
        let (directory, _) = self.descend(&names, Missing::Refuse)?;
        open_directory(directory, c".")
    }

    /// The directory of these names, and how many of them were there before.
    fn descend(&self, names: &[CString], missing: Missing) -> Result<(Step, usize), GuestError> {
        let mut step = Step::Root(self.clone());
        let mut before = names.len();
        for (depth, name) in names.iter().enumerate() {
            match Self::enter(&step, name, missing) {
                Ok((next, found)) => {
                    step = next;
                    if found == Found::No {
                        before = before.min(depth);
                    }
                }
                Err(failed) => {
                    let made = Made {
                        root: self.clone(),
                        names: names[..depth].to_vec(),
                        before,
                    };
                    made.undo();
                    return Err(failed);
                }
            }
        }
        Ok((step, before))
    }

    fn enter(step: &Step, name: &CString, missing: Missing) -> Result<(Step, Found), GuestError> {
        let mut found = Found::Yes;
        if missing == Missing::Make {
            let mode = Mode::from_bits_truncate(0o755);
            match mkdirat(step.as_fd(), name.as_c_str(), mode) {
                Ok(()) => found = Found::No,
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(error(errno)),
            }
        }
        let next = openat(step.as_fd(), name.as_c_str(), DIRECTORY, Mode::empty());
        Ok((Step::Below(next.map_err(error)?), found))
    }
}

/// Whether a directory was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Yes,
    No,
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
    /// Removes the directories that were made on the way here.
    pub(crate) fn undo(&self) {
        self.made.undo();
    }

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
