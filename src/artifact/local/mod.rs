//! Files on the user's own machine, beneath the folders that the operator opened and nowhere else.
//!
//! The path is chosen by a model that may have been talked into it. So folders are opened once, at the start,
//! and every path is resolved beneath their handles: no `..`, link or rename leads out, also while somebody
//! moves things about. Only regular files are read or replaced; a FIFO would wait for ever and a device may do
//! anything. A file is saved whole or not at all.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions},
};

use crate::types::visible;
use save::Target;

mod save;

pub use save::LocalWriter;

/// What may be done beneath a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Files may be read.
    Read,
    /// Files may be read and saved.
    ReadWrite,
}

/// Whether a file that is there may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It stays, and saving fails.
    Refuse,
    /// It is replaced, if it is a regular file.
    Replace,
}

/// Why a file of the user's machine could not be read or saved. Each names the path with visible escapes.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The path lies beneath no folder that was opened, or leads out of it.
    #[error(
        "{path} is not beneath a folder that this server may read: the person who starts it can open one with --allow-dir DIR"
    )]
    NotReadable {
        /// The path.
        path: String,
    },
    /// The path lies beneath no folder that was opened for writing, or leads out of it.
    #[error(
        "{path} is not beneath a folder that this server may write: the person who starts it can open one with --allow-dir-rw DIR"
    )]
    NotWritable {
        /// The path.
        path: String,
    },
    /// A folder that cannot be opened.
    #[error(
        "the folder {path}, which tools are to be allowed, cannot be opened: create it, or take it out of `[files]` or the command line"
    )]
    Folder {
        /// The path.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// A folder for reading within one for writing: what is written beneath the outer one can reach it by `..`
    /// or a link within.
    #[error(
        "{inner} is opened for reading and lies within {outer}, which is opened for writing, so it could be written all the same: open only one of them, or move the one out of the other"
    )]
    Nested {
        /// The folder for reading.
        inner: String,
        /// The folder for writing.
        outer: String,
    },
    /// There is no such file, or no such folder to save in.
    #[error("{path}: no such file or folder")]
    NotFound {
        /// The path.
        path: String,
    },
    /// A folder, link, FIFO, socket or device.
    #[error("{path} is not a regular file")]
    NotRegular {
        /// The path.
        path: String,
    },
    /// More than may be read.
    #[error("{path} has {bytes} bytes, and at most {most} may be read")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        bytes: u64,
        /// The bound.
        most: u64,
    },
    /// There is a file already.
    #[error("{path} exists already: pass overwrite to replace it, or save under another name")]
    Exists {
        /// The path.
        path: String,
    },
    /// The operating system refused.
    #[error("{operation} {path}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The path.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The thread that did the work panicked.
    #[error("reading or saving failed inside")]
    Panicked,
}

#[derive(Debug)]
struct AllowedDir {
    /// As the operator wrote it, made absolute.
    given: PathBuf,
    /// Without links.
    canonical: PathBuf,
    access: Access,
    handle: Dir,
}

impl AllowedDir {
    /// The rest of an absolute path beneath this folder. It may still hold `..`, which the handle refuses.
    fn beneath<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.given)
            .or_else(|_| path.strip_prefix(&self.canonical))
            .ok()
    }
}

/// The folders that the operator opened; none by default. Clones share them.
#[derive(Clone, Debug)]
pub struct AllowedDirs {
    dirs: Arc<[AllowedDir]>,
}

/// A file of the user's, open for reading.
#[derive(Debug)]
pub struct LocalFile {
    /// The content. It may have grown since: take no more than the bound.
    pub file: tokio::fs::File,
    /// Its size when it was opened.
    pub bytes: u64,
}

impl AllowedDirs {
    /// Opens each folder. Fails where one is missing, so that a slip in the configuration shows at the start.
    pub fn open(dirs: impl IntoIterator<Item = (PathBuf, Access)>) -> Result<Self, LocalError> {
        let open = |(path, access): (PathBuf, Access)| {
            let opened = || {
                Ok(AllowedDir {
                    given: std::path::absolute(&path)?,
                    canonical: path.canonicalize()?,
                    access,
                    handle: Dir::open_ambient_dir(&path, ambient_authority())?,
                })
            };
            opened().map_err(|source| LocalError::Folder {
                path: shown(&path),
                source,
            })
        };
        let dirs: Arc<[AllowedDir]> = dirs.into_iter().map(open).collect::<Result<_, _>>()?;
        for inner in dirs.iter().filter(|dir| dir.access == Access::Read) {
            let holds = |outer: &&AllowedDir| {
                outer.access == Access::ReadWrite && inner.canonical.starts_with(&outer.canonical)
            };
            if let Some(outer) = dirs.iter().find(holds) {
                return Err(LocalError::Nested {
                    inner: shown(&inner.given),
                    outer: shown(&outer.given),
                });
            }
        }
        Ok(Self { dirs })
    }

    /// Whether no folder was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// Opens a regular file of at most `most` bytes: an absolute path, or one relative to an opened folder (the
    /// first that has it).
    pub async fn open_read(&self, path: &Path, most: u64) -> Result<LocalFile, LocalError> {
        let (this, path) = (self.clone(), path.to_owned());
        blocking(move || this.open_read_blocking(&path, most)).await
    }

    fn open_read_blocking(&self, path: &Path, most: u64) -> Result<LocalFile, LocalError> {
        let mut result = Err(LocalError::NotReadable { path: shown(path) });
        for (dir, rest) in self.places(path) {
            result = open_regular(&dir.handle, rest, path, most);
            if !matches!(result, Err(LocalError::NotFound { .. })) {
                break;
            }
        }
        result
    }

    /// Begins to save a file: an absolute path, or one relative to the first folder opened for writing. Nothing
    /// is seen at the path before [`LocalWriter::finish`].
    pub async fn save(&self, path: &Path, overwrite: Overwrite) -> Result<LocalWriter, LocalError> {
        let (this, path) = (self.clone(), path.to_owned());
        blocking(move || this.save_blocking(&path, overwrite)).await
    }

    fn save_blocking(&self, path: &Path, overwrite: Overwrite) -> Result<LocalWriter, LocalError> {
        let not_writable = || LocalError::NotWritable { path: shown(path) };
        // An absolute path has one place: the innermost folder that holds it.
        let (dir, rest) = self
            .places(path)
            .into_iter()
            .find(|(dir, _)| path.is_absolute() || dir.access == Access::ReadWrite)
            .filter(|(dir, _)| dir.access == Access::ReadWrite)
            .ok_or_else(not_writable)?;
        let failed = |error| local_error(error, path, "save", not_writable());
        let name = match rest.components().next_back() {
            Some(std::path::Component::Normal(name)) => PathBuf::from(name),
            _ => return Err(LocalError::NotRegular { path: shown(path) }),
        };
        let parent = match rest.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => dir.handle.open_dir(parent),
            _ => dir.handle.try_clone(),
        }
        .map_err(failed)?;
        let target = Target {
            parent,
            name,
            overwrite,
            shown: shown(path),
        };
        target.check()?;
        LocalWriter::begin(target).map_err(failed)
    }

    /// Where a path may lie: for an absolute one the innermost folder that holds it, else each folder in order.
    fn places<'a>(&'a self, path: &'a Path) -> Vec<(&'a AllowedDir, &'a Path)> {
        if path.is_absolute() {
            let holds = |dir: &'a AllowedDir| dir.beneath(path).map(|rest| (dir, rest));
            let innermost = |(_, rest): &(&AllowedDir, &Path)| rest.components().count();
            self.dirs
                .iter()
                .filter_map(holds)
                .min_by_key(innermost)
                .into_iter()
                .collect()
        } else {
            self.dirs.iter().map(|dir| (dir, path)).collect()
        }
    }
}

fn open_regular(dir: &Dir, rest: &Path, path: &Path, most: u64) -> Result<LocalFile, LocalError> {
    let failed = |error| {
        local_error(
            error,
            path,
            "read",
            LocalError::NotReadable { path: shown(path) },
        )
    };
    let not_regular = || LocalError::NotRegular { path: shown(path) };
    if rest.as_os_str().is_empty() {
        return Err(not_regular());
    }
    // Looked at before it is opened, since opening a device may already do something; opened without waiting, in
    // case it became a FIFO in between; and looked at again, for what was really opened.
    if !dir.metadata(rest).map_err(failed)?.is_file() {
        return Err(not_regular());
    }
    let file = dir
        .open_with(rest, OpenOptions::new().read(true).nonblock(true))
        .map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(not_regular());
    }
    let bytes = about.len();
    if bytes > most {
        return Err(LocalError::TooLarge {
            path: shown(path),
            bytes,
            most,
        });
    }
    Ok(LocalFile {
        file: tokio::fs::File::from_std(file.into_std()),
        bytes,
    })
}

/// What a failure means; `outside` where the path led out of its folder.
fn local_error(
    source: io::Error,
    path: &Path,
    operation: &'static str,
    outside: LocalError,
) -> LocalError {
    match source.kind() {
        // The operating system's own denial carries its number; a refused way out does not.
        io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => outside,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            LocalError::NotFound { path: shown(path) }
        }
        _ => LocalError::Io {
            operation,
            path: shown(path),
            source,
        },
    }
}

fn shown(path: &Path) -> String {
    visible::escape_name(path.as_os_str().as_encoded_bytes())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LocalError> + Send + 'static,
) -> Result<T, LocalError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| LocalError::Panicked)?
}

#[cfg(test)]
mod tests;
