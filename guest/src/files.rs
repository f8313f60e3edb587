//! Writing and reading files beneath the workspace.
//!
//! A file appears whole under its name or not at all. Reads are of regular files only.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};

use belljar_wire::limits::MAX_DATA;
use belljar_wire::message::{Entry, EntryKind, GuestError};
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat};
use nix::sys::uio::pread;
use nix::unistd::{UnlinkatFlags, unlinkat, write};

use crate::beneath::{Missing, Place, Root, error};

/// Mode of every file that is written from outside.
const FILE_MODE: Mode = Mode::S_IRUSR
    .union(Mode::S_IWUSR)
    .union(Mode::S_IRGRP)
    .union(Mode::S_IROTH);

/// How many files are remembered, to tell inputs that a run left alone, and what runs before it left,
/// from files that it made. Stops a long session from growing the guest; past it, an old file may be
/// reported as new.
pub(crate) const MAX_REMEMBERED: usize = 4096;

/// The workspace's files.
#[derive(Debug)]
pub(crate) struct Files {
    root: Root,
    known: RefCell<HashMap<u64, Stamp>>,
    temporary: Cell<u64>,
}

/// What changes whenever a file's content does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    changed: (i64, i64),
    size: i64,
}

impl Stamp {
    fn of(stat: &FileStat) -> Self {
        Self {
            changed: changed(stat),
            size: stat.st_size,
        }
    }
}

/// When the file's content or attributes last changed; a program cannot set this.
#[expect(
    clippy::useless_conversion,
    reason = "the field's type differs between architectures"
)]
pub(crate) fn changed(stat: &FileStat) -> (i64, i64) {
    (i64::from(stat.st_ctime), i64::from(stat.st_ctime_nsec))
}

impl Files {
    pub(crate) fn new(root: Root) -> Self {
        Self {
            root,
            known: RefCell::default(),
            temporary: Cell::new(0),
        }
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Gives the workspace back the rights that a program may have taken from it: what it left would else be lost
    /// without a word, and no later run could begin. The workspace is a mount, so its name leads nowhere else.
    pub(crate) fn reclaim(&self) {
        let mode = Mode::from_bits_truncate(0o1777);
        let _ = nix::sys::stat::fchmodat(
            nix::fcntl::AT_FDCWD,
            crate::WORKSPACE,
            mode,
            nix::sys::stat::FchmodatFlags::FollowSymlink,
        );
    }

    /// Begins a file: it is invisible until [`Pending::finish`].
    pub(crate) fn create(&self, path: &[u8]) -> Result<Pending<'_>, GuestError> {
        let place = self.root.place(path, Missing::Make)?;
        let number = self.temporary.get();
        self.temporary.set(number.wrapping_add(1));
        // Hidden, so that it is in no listing and never collected; a number of its own, so that two
        // transfers do not meet.
        let name = std::ffi::CString::new(format!(".belljar-{number}.part"))
            .map_err(|_| GuestError::Malformed)?;
        // Of an earlier guest or a program; O_EXCL below refuses whatever remains.
        let _ = unlinkat(
            place.directory.as_fd(),
            name.as_c_str(),
            UnlinkatFlags::NoRemoveDir,
        );
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = openat(place.directory.as_fd(), name.as_c_str(), flags, FILE_MODE);
        let file = opened.map_err(|errno| {
            place.undo();
            error(errno)
        })?;
        Ok(Pending {
            files: self,
            path: path.to_vec(),
            place,
            file,
            temporary: Some(name),
        })
    }

    /// Writes a whole file that is in memory.
    pub(crate) fn write(&self, path: &[u8], bytes: &[u8]) -> Result<Entry, GuestError> {
        let mut pending = self.create(path)?;
        pending.append(bytes)?;
        pending.finish()
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, path: &[u8]) {
        if let Ok(place) = self.root.place(path, Missing::Refuse) {
            let name = place.name.as_c_str();
            let _ = unlinkat(place.directory.as_fd(), name, UnlinkatFlags::NoRemoveDir);
        }
    }

    /// Opens a regular file.
    pub(crate) fn open(&self, path: &[u8]) -> Result<Opened, GuestError> {
        let (file, stat) = self.root.place(path, Missing::Refuse)?.open_file()?;
        Ok(Opened {
            file,
            entry: entry(path.to_vec(), EntryKind::File, &stat),
        })
    }

    /// Whether the file was written from outside or reported before, and is as it was then.
    pub(crate) fn is_known(&self, stat: &FileStat) -> bool {
        self.known.borrow().get(&stat.st_ino) == Some(&Stamp::of(stat))
    }

    /// Takes note of a file as it is now.
    pub(crate) fn remember(&self, stat: &FileStat) {
        let mut known = self.known.borrow_mut();
        if known.len() < MAX_REMEMBERED || known.contains_key(&stat.st_ino) {
            known.insert(stat.st_ino, Stamp::of(stat));
        }
    }
}

/// What is said of a file to the server.
#[expect(
    clippy::useless_conversion,
    reason = "the field's type differs between architectures"
)]
pub(crate) fn entry(path: Vec<u8>, kind: EntryKind, stat: &FileStat) -> Entry {
    let bytes = match kind {
        EntryKind::File => u64::try_from(stat.st_size).unwrap_or(0),
        EntryKind::Dir | EntryKind::Link | EntryKind::Other => 0,
    };
    let modified_ms = i64::from(stat.st_mtime)
        .saturating_mul(1000)
        .saturating_add(stat.st_mtime_nsec / 1_000_000);
    Entry {
        path,
        kind,
        bytes,
        modified_ms,
    }
}

/// A file that is being written. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    files: &'a Files,
    path: Vec<u8>,
    place: Place,
    file: OwnedFd,
    temporary: Option<std::ffi::CString>,
}

impl Pending<'_> {
    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<(), GuestError> {
        while !bytes.is_empty() {
            match write(&self.file, bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(error(errno)),
            }
        }
        Ok(())
    }

    /// Puts the file in its place, instead of a file or a link that is there.
    pub(crate) fn finish(mut self) -> Result<Entry, GuestError> {
        fchmod(&self.file, FILE_MODE).map_err(error)?;
        let Some(temporary) = &self.temporary else {
            return Err(GuestError::Malformed);
        };
        let directory = self.place.directory.as_fd();
        renameat(
            directory,
            temporary.as_c_str(),
            directory,
            self.place.name.as_c_str(),
        )
        .map_err(error)?;
        self.temporary = None;
        // After the rename, which is a change too.
        let stat = fstat(&self.file).map_err(error)?;
        self.files.remember(&stat);
        Ok(entry(
            std::mem::take(&mut self.path),
            EntryKind::File,
            &stat,
        ))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let directory = self.place.directory.as_fd();
            let _ = unlinkat(directory, temporary.as_c_str(), UnlinkatFlags::NoRemoveDir);
            self.place.undo();
        }
    }
}

/// A regular file that is being read.
#[derive(Debug)]
pub(crate) struct Opened {
    file: OwnedFd,
    pub(crate) entry: Entry,
}

impl Opened {
    /// Reads at most `space` bytes, or [`MAX_DATA`], from `offset`; 0 at the end.
    pub(crate) fn read(&self, space: &mut [u8], offset: u64) -> Result<usize, GuestError> {
        let most = space.len().min(MAX_DATA);
        let Ok(offset) = i64::try_from(offset) else {
            return Ok(0);
        };
        pread(&self.file, &mut space[..most], offset).map_err(error)
    }
}
