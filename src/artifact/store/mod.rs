//! The store as the rest of the server sees it: asynchronous, with the blocking work on threads made for it.
//!
//! One caller's id is unknown to another, and an id that has ended is told apart from one that never was.

use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, BufReader};

use super::{
    disk::{Disk, Measured},
    entry::{Cursor, Entry, NewEntry, Page, artifact_file_name, upload_file_name},
    media::Sniffer,
    sweep::Swept,
    writer::BlobWriter,
};
use crate::types::{ArtifactId, Caller, FileId, MIB, RunId, Sha256, clock, read_at_most};

/// How long a kept file lives unless the operator says otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_hours(24);
/// How much the store holds unless the operator says otherwise: what code leaves behind must not fill the
/// user's disk.
pub const DEFAULT_CAP_BYTES: u64 = 4096 * MIB;
/// The most bytes that one read takes into memory.
pub const MAX_READ_BYTES: u64 = 32 * MIB;
/// Bytes of a stream that are read at a time.
const STREAMED_BYTES: usize = 512 * 1024;
/// The most files kept unless [`Options::max_entries`] says otherwise: millions of empty files use up
/// inodes and the time of each sweep long before they reach a cap of bytes.
const DEFAULT_MAX_ENTRIES: usize = 20_000;

/// How long and how much the store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long an entry lives.
    pub ttl: Duration,
    /// How many bytes all of them take, content that is kept once counted once.
    pub cap_bytes: u64,
    /// How many there may be.
    pub max_entries: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            cap_bytes: DEFAULT_CAP_BYTES,
            max_entries: DEFAULT_MAX_ENTRIES,
        }
    }
}

/// Why something could not be kept or had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such id, or it belongs to another caller.
    #[error("unknown id")]
    NotFound,
    /// There was such an id, and it has ended.
    #[error("expired: kept files live for a limited time and make room for newer ones")]
    Expired,
    /// More than may be kept.
    #[error("more than the {most} bytes that may be kept")]
    TooLarge {
        /// The bound that was passed, in bytes.
        most: u64,
    },
    /// Content on disk is not what was kept.
    #[error("the kept content was damaged on disk")]
    Damaged,
    /// Another process holds the store's lock and does not let go.
    #[error("the artifact store is locked by another process that does not answer")]
    Locked,
    /// The operating system refused.
    #[error("{operation} in the artifact store")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
    /// The program ends before the work has begun.
    #[error("the program ends")]
    Stopping,
    /// The thread that did the work panicked.
    #[error("the artifact store failed inside")]
    Panicked,
}

impl StoreError {
    /// For `map_err`: names the operation that failed.
    pub(super) fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }
}

/// The store beneath one state directory; clones share it, and so may other processes.
#[derive(Clone, Debug)]
pub struct Store {
    disk: Arc<Disk>,
}

impl Store {
    /// Opens the store in `dir` and makes it where there is none, for this user alone.
    ///
    /// Nothing is swept yet: call [`Self::sweep`] in the background, and again every few minutes.
    pub fn open(dir: impl Into<PathBuf>, options: Options) -> Result<Self, StoreError> {
        Ok(Self {
            disk: Arc::new(Disk::open(dir.into(), options)?),
        })
    }

    /// A directory for files on their way into the store: private to this process, on the same file system, and removed
    /// by the next process where this one is killed.
    #[must_use]
    pub fn spool_dir(&self) -> &Path {
        self.disk.temp_dir()
    }

    /// Keeps content that comes in pieces, at most `most` bytes of it. What is dropped unfinished leaves nothing.
    pub async fn writer(&self, most: u64) -> Result<BlobWriter, StoreError> {
        let temp = self.blocking(Disk::temp).await?;
        Ok(BlobWriter::new(self.clone(), temp, most))
    }

    /// Keeps bytes that are at hand.
    pub async fn put_bytes(&self, bytes: Bytes, new: NewEntry) -> Result<Entry, StoreError> {
        self.blocking(move |disk| {
            let mut temp = disk.temp()?;
            temp.write_all(&bytes)
                .map_err(StoreError::io("write a file"))?;
            disk.keep(temp.into_temp_path(), Measured::of(&bytes, &new.name), new)
        })
        .await
    }

    /// Keeps a file by moving it, as it is, from [`Self::spool_dir`]. Whoever wrote it counted it and computed its
    /// digest meanwhile: both are taken on trust, since a gigabyte is not to be read again for them.
    pub async fn put_file(
        &self,
        mut file: NamedTempFile,
        bytes: u64,
        sha256: Sha256,
        new: NewEntry,
    ) -> Result<Entry, StoreError> {
        self.blocking(move |disk| {
            let failed = || StoreError::io("read a file");
            let there = file.as_file().metadata().map_err(failed())?.len();
            if there != bytes {
                return Err(StoreError::Damaged);
            }
            file.rewind().map_err(failed())?;
            let media_type = Sniffer::read(&mut file, &new.name).map_err(failed())?;
            let measured = Measured {
                bytes,
                sha256,
                media_type,
            };
            disk.keep(file.into_temp_path(), measured, new)
        })
        .await
    }

    /// The artifact or output of this caller with this id.
    pub async fn get(&self, caller: &Caller, id: &ArtifactId) -> Result<Entry, StoreError> {
        let (caller, name) = (caller.clone(), artifact_file_name(id));
        self.blocking(move |disk| disk.find(&caller, &name, clock::wall_clock()))
            .await
    }

    /// The upload of this caller with this id.
    pub async fn upload_get(&self, caller: &Caller, id: &FileId) -> Result<Entry, StoreError> {
        let (caller, name) = (caller.clone(), upload_file_name(id));
        self.blocking(move |disk| disk.find(&caller, &name, clock::wall_clock()))
            .await
    }

    /// Up to `length` bytes from `offset`, at most [`MAX_READ_BYTES`]; fewer at the end, none past it.
    pub async fn read(&self, entry: &Entry, offset: u64, length: u64) -> Result<Bytes, StoreError> {
        let entry = entry.clone();
        self.blocking(move |disk| {
            let failed = || StoreError::io("read a file");
            let mut blob = disk.blob(&entry)?;
            let length = length
                .min(MAX_READ_BYTES)
                .min(entry.bytes.saturating_sub(offset));
            // An offset past what a file can have is an error to some systems.
            blob.seek(SeekFrom::Start(offset.min(entry.bytes)))
                .map_err(failed())?;
            let bytes = read_at_most(blob, length).map_err(failed())?;
            Ok(bytes.into())
        })
        .await
    }

    /// The content as a file, for what is too large to hold.
    pub async fn open_blob(&self, entry: &Entry) -> Result<File, StoreError> {
        let entry = entry.clone();
        self.blocking(move |disk| disk.blob(&entry)).await
    }

    /// The content as a stream, read in large pieces: each is a task of its own.
    pub async fn stream_blob(
        &self,
        entry: &Entry,
    ) -> Result<impl AsyncRead + Send + use<>, StoreError> {
        let file = tokio::fs::File::from_std(self.open_blob(entry).await?);
        Ok(BufReader::with_capacity(STREAMED_BYTES, file))
    }

    /// Artifacts and outputs of a caller, newest first, at most `limit` after the cursor.
    pub async fn list(
        &self,
        caller: &Caller,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let caller = caller.clone();
        self.blocking(move |disk| disk.list(&caller, after.as_ref(), limit, clock::wall_clock()))
            .await
    }

    /// The code, arguments and output kept of a run, in the order in which they were kept. For the operator's
    /// command line; it asks for no caller, so no tool may call it.
    pub async fn records_of(&self, run: &RunId) -> Result<Vec<Entry>, StoreError> {
        let run = run.clone();
        self.blocking(move |disk| disk.records_of(&run)).await
    }

    /// Removes what has expired, what is over the cap (oldest first) and what crashes left.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        self.blocking(|disk| disk.sweep(clock::wall_clock())).await
    }

    /// Ends it: what is still on its way into the store is removed, and nothing more can be kept by this process.
    pub async fn close(&self) {
        // Where the runtime ends already, the next start removes it.
        let _ = self
            .blocking(|disk| {
                disk.end_scratch();
                Ok(())
            })
            .await;
    }

    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Disk) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let disk = Arc::clone(&self.disk);
        tokio::task::spawn_blocking(move || work(&disk))
            .await
            .map_err(|error| {
                if error.is_cancelled() {
                    StoreError::Stopping
                } else {
                    StoreError::Panicked
                }
            })?
    }
}

#[cfg(test)]
mod tests;
