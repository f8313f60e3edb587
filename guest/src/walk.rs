//! Walking the workspace, for listings and for what a run left.
//!
//! The tree is a hostile program's: deep, wide, full of links and FIFOs, and possibly still being
//! changed. The walk follows no link, opens nothing but directories, and is bounded in depth, in
//! entries and in time; whatever it leaves out is counted as far as it is known.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use belljar_wire::limits::{MAX_DEPTH, MAX_PATH};
use belljar_wire::message::{Entry, EntryKind, GuestError, Hidden};
use nix::dir::Dir;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstatat};

use crate::beneath::{is_kind, open_directory};
use crate::files::entry;

/// Names looked at in one walk. Stops a million files from taking seconds, and from filling the
/// guest's share of the container's memory with names.
const MAX_NAMES: usize = 100_000;

/// Time that one walk takes at most. Stops a huge tree from holding up the word that a run is over:
/// the server kills a container whose guest says nothing for a little longer than this after the
/// deadline.
const MAX_TIME: Duration = Duration::from_secs(1);

/// Steps between two chances for other tasks (the answer to a ping).
const STEPS_PER_TURN: usize = 256;

/// What a walk passes over.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) hidden: Hidden,
    pub(crate) skip_dirs: Vec<String>,
}

/// A walk under way.
#[derive(Debug)]
pub(crate) struct Walk {
    levels: Vec<Level>,
    filter: Filter,
    names: usize,
    ends: Instant,
    omitted: u64,
    steps: usize,
}

#[derive(Debug)]
struct Level {
    directory: Dir,
    path: Vec<u8>,
    names: Vec<CString>,
}

/// Something that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entry: Entry,
    pub(crate) stat: FileStat,
}

impl Walk {
    /// Begins at a directory whose path, relative to the workspace, is `path`.
    pub(crate) fn new(directory: OwnedFd, path: &[u8], filter: Filter) -> Result<Self, GuestError> {
        let mut walk = Self {
            levels: Vec::new(),
            filter,
            names: 0,
            ends: Instant::now() + MAX_TIME,
            omitted: 0,
            steps: 0,
        };
        walk.enter(directory, path.to_vec())
            .map_err(crate::beneath::error)?;
        Ok(walk)
    }

    /// Entries that were not looked at, as far as they are known.
    pub(crate) fn omitted(&self) -> u64 {
        self.omitted
    }

    /// The next thing found, directories before what is in them.
    pub(crate) async fn next(&mut self) -> Option<Found> {
        loop {
            self.steps += 1;
            if self.steps.is_multiple_of(STEPS_PER_TURN) {
                tokio::task::yield_now().await;
                if Instant::now() > self.ends {
                    let left: usize = self.levels.iter().map(|level| level.names.len()).sum();
                    self.omitted += u64::try_from(left).unwrap_or(0);
                    self.levels.clear();
                }
            }
            let level = self.levels.last_mut()?;
            let Some(name) = level.names.pop() else {
                self.levels.pop();
                continue;
            };
            if let Some(found) = self.look(&name) {
                return Some(found);
            }
        }
    }

    fn look(&mut self, name: &CString) -> Option<Found> {
        let depth = self.levels.len();
        let level = self.levels.last()?;
        let Ok(stat) = fstatat(
            &level.directory,
            name.as_c_str(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        ) else {
            // Gone since its name was read.
            return None;
        };
        let kind = kind(&stat);
        let mut path = level.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        if path.len() > MAX_PATH {
            self.omitted += 1;
            return None;
        }
        if kind == EntryKind::Dir {
            if self
                .filter
                .skip_dirs
                .iter()
                .any(|skipped| skipped.as_bytes() == name.as_bytes())
            {
                return None;
            }
            let inside = open_directory(&level.directory, name.as_c_str());
            match inside {
                Ok(inside) if depth < MAX_DEPTH => {
                    if self.enter(inside, path.clone()).is_err() {
                        self.omitted += 1;
                    }
                }
                Ok(_) | Err(_) => self.omitted += 1,
            }
        }
        Some(Found {
            entry: entry(path, kind, &stat),
            stat,
        })
    }

    fn enter(&mut self, directory: OwnedFd, path: Vec<u8>) -> nix::Result<()> {
        let mut directory = Dir::from_fd(directory)?;
        let mut names = Vec::new();
        for read in directory.iter() {
            let name = read?.file_name().to_owned();
            let bytes = name.as_bytes();
            let hidden = bytes.first() == Some(&b'.');
            if matches!(bytes, b"." | b"..") || (hidden && self.filter.hidden == Hidden::Skip) {
                continue;
            }
            if self.names < MAX_NAMES {
                self.names += 1;
                names.push(name);
            } else {
                self.omitted += 1;
                if self.omitted.is_multiple_of(1024) && Instant::now() > self.ends {
                    break;
                }
            }
        }
        self.levels.push(Level {
            directory,
            path,
            names,
        });
        Ok(())
    }
}

fn kind(stat: &FileStat) -> EntryKind {
    if is_kind(stat, SFlag::S_IFREG) {
        EntryKind::File
    } else if is_kind(stat, SFlag::S_IFDIR) {
        EntryKind::Dir
    } else if is_kind(stat, SFlag::S_IFLNK) {
        EntryKind::Link
    } else {
        EntryKind::Other
    }
}
