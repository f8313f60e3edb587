//! The store on disk. Blocks; see [`super::Store`] for the asynchronous face.
//!
//! # Theory of operation
//! ```text
//! blobs/<aa>/<sha256>   content, once however often it is kept
//! entries/<name>.json   what is known of one kept file; its blob lives as long as any entry names it
//! gone/<name>.json      an entry that has ended, so that its id can be told from one that never was
//! tmp/<id>/             files on their way, of one process; the sweep of another removes them when it was killed
//! lock                  shared by whoever adds, exclusive to whoever sweeps
//! ```
//! Everything is written in `tmp` and renamed into place, the blob before the entry, so no reader ever sees
//! half of anything. The lock is held only around the two renames: it keeps a sweep from removing a
//! blob between them. Entries never change, so they may be remembered by name.
//!
//! Several processes work on one store. None may keep the lock while it waits for anything but the disk.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use tempfile::{NamedTempFile, TempPath};

use super::{
    entry::{Entry, NewEntry},
    index::Index,
    media::media_type,
    store::{Options, StoreError},
};
use crate::{
    scratch::Scratch,
    types::{ArtifactId, Caller, KIB, Sha256, clock, read_at_most},
};

/// What an entry costs beside its content, for the cap: an inode and a block.
pub(super) const ENTRY_COST_BYTES: u64 = 4 * KIB;
/// The largest entry file that is read: names are bounded, so a larger one is damage.
const MAX_ENTRY_FILE_BYTES: u64 = 64 * KIB;
/// How long the lock is waited for. A sweep takes less than a second; a process that was stopped in the
/// middle of one must not stop all others for good.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries for the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// The part of the cap that one process adds before it sweeps again on its own account. With few
/// processes on one store the overshoot is as many times this.
const SWEEP_EVERY_PART: u64 = 16;

/// Size, digest and media type of some content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) bytes: u64,
    pub(super) sha256: Sha256,
    pub(super) media_type: &'static str,
}

impl Measured {
    pub(super) fn of(bytes: &[u8], name: &str) -> Self {
        Self {
            bytes: bytes.len() as u64,
            sha256: Sha256::of(bytes),
            media_type: media_type(name, bytes),
        }
    }
}

/// The directories of one store.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) root: PathBuf,
    scratch: Scratch,
    pub(super) options: Options,
    pub(super) index: Mutex<Index>,
    /// Bytes added by this process since its last sweep.
    added: AtomicU64,
}

impl Disk {
    pub(super) fn open(root: PathBuf, options: Options) -> Result<Self, StoreError> {
        for dir in ["", "blobs", "entries", "gone", "tmp"] {
            private_dir(&root.join(dir)).map_err(StoreError::io("make a directory"))?;
        }
        let scratch =
            Scratch::make(&root.join("tmp")).map_err(StoreError::io("make a directory"))?;
        Ok(Self {
            scratch,
            root,
            options,
            index: Mutex::default(),
            added: AtomicU64::new(0),
        })
    }

    pub(super) fn temp_dir(&self) -> &Path {
        self.scratch.dir()
    }

    /// Removes what is on its way.
    pub(super) fn end_scratch(&self) {
        self.scratch.clear();
    }

    /// A new file that only this user can read, gone when dropped.
    pub(super) fn temp(&self) -> Result<NamedTempFile, StoreError> {
        NamedTempFile::new_in(self.temp_dir()).map_err(StoreError::io("make a file"))
    }

    /// Moves a finished file into place and makes its entry.
    pub(super) fn keep(
        &self,
        content: TempPath,
        measured: Measured,
        new: NewEntry,
    ) -> Result<Entry, StoreError> {
        let Measured {
            bytes,
            sha256,
            media_type,
        } = measured;
        if bytes > self.options.cap_bytes {
            return Err(StoreError::TooLarge {
                most: self.options.cap_bytes,
            });
        }
        // Whole milliseconds, so that the order survives a cursor's text.
        let created = Timestamp::from_millisecond(clock::wall_clock().as_millisecond())
            .unwrap_or(Timestamp::UNIX_EPOCH);
        let ttl = SignedDuration::try_from(self.options.ttl).unwrap_or(SignedDuration::MAX);
        let entry = Entry {
            id: ArtifactId::random(),
            caller: new.caller,
            kind: new.kind,
            name: new.name,
            media_type: media_type.to_owned(),
            bytes,
            sha256,
            created,
            expires: created.checked_add(ttl).unwrap_or(Timestamp::MAX),
        };
        let mut about = self.temp()?;
        serde_json::to_vec(&entry)
            .map_err(io::Error::from)
            .and_then(|text| about.write_all(&text))
            .map_err(StoreError::io("write an entry"))?;
        {
            let _lock = self.lock(Lock::Shared)?;
            self.place_blob(content, &entry)?;
            about
                .into_temp_path()
                .persist(self.root.join("entries").join(entry.file_name()))
                .map_err(|e| StoreError::io("move an entry into place")(e.error))?;
        }
        let added = bytes + ENTRY_COST_BYTES;
        if self.added.fetch_add(added, Ordering::Relaxed) + added
            > self.options.cap_bytes / SWEEP_EVERY_PART
            && let Err(error) = self.sweep(clock::wall_clock())
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the artifact store could not be swept"
            );
        }
        Ok(entry)
    }

    fn place_blob(&self, content: TempPath, entry: &Entry) -> Result<(), StoreError> {
        let failed = || StoreError::io("move a file into place");
        let blob = self.blob_path(&entry.sha256);
        if let Some(dir) = blob.parent() {
            private_dir(dir).map_err(failed())?;
        }
        let Err(not_moved) = content.persist(&blob) else {
            return Ok(());
        };
        match not_moved.error.kind() {
            io::ErrorKind::CrossesDevices => {
                let mut here = self.temp()?;
                let mut there = File::open(&not_moved.path).map_err(failed())?;
                io::copy(&mut there, &mut here).map_err(failed())?;
                here.into_temp_path()
                    .persist(&blob)
                    .map_err(|e| failed()(e.error))
            }
            // Windows does not replace a file that somebody reads; what is there has the same content.
            _ if fs::metadata(&blob).is_ok_and(|blob| blob.len() == entry.bytes) => Ok(()),
            _ => Err(failed()(not_moved.error)),
        }
    }

    /// The entry with this file name, if it is this caller's.
    pub(super) fn find(
        &self,
        caller: &Caller,
        name: &str,
        now: Timestamp,
    ) -> Result<Entry, StoreError> {
        let ours = |dir: &str| {
            let entry = read_entry(&self.root.join(dir).join(name));
            entry.map(|entry| entry.filter(|entry| entry.caller == *caller))
        };
        match ours("entries")? {
            Some(entry) if entry.is_expired(now) => Err(StoreError::Expired),
            Some(entry) => Ok(entry),
            // In this order: an entry that ends between the two looks is found by the second.
            None if ours("gone")?.is_some() => Err(StoreError::Expired),
            None => Err(StoreError::NotFound),
        }
    }

    /// The content of an entry.
    pub(super) fn blob(&self, entry: &Entry) -> Result<File, StoreError> {
        let failed = || StoreError::io("open a file");
        let blob = match File::open(self.blob_path(&entry.sha256)) {
            Ok(blob) => blob,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Expired);
            }
            Err(error) => return Err(failed()(error)),
        };
        // After a loss of power a file may be shorter than it was.
        if blob.metadata().map_err(failed())?.len() == entry.bytes {
            Ok(blob)
        } else {
            Err(StoreError::Damaged)
        }
    }

    fn blob_path(&self, sha256: &Sha256) -> PathBuf {
        let name = sha256.to_string();
        self.root.join("blobs").join(&name[..2]).join(name)
    }

    pub(super) fn lock(&self, lock: Lock) -> Result<File, StoreError> {
        let failed = || StoreError::io("lock");
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // A handle of its own, so that the threads of one process exclude each other too.
        let file = options.open(self.root.join("lock")).map_err(failed())?;
        let patience = Instant::now();
        loop {
            let tried = match lock {
                Lock::Shared => file.try_lock_shared(),
                Lock::Exclusive => file.try_lock(),
            };
            match tried {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) if patience.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(fs::TryLockError::WouldBlock) => return Err(StoreError::Locked),
                Err(fs::TryLockError::Error(error)) => return Err(failed()(error)),
            }
        }
    }

    /// Starts anew to count what this process adds.
    pub(super) fn reset_added(&self) {
        self.added.store(0, Ordering::Relaxed);
    }
}

/// How the lock is held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lock {
    /// By those who add.
    Shared,
    /// By the one who removes.
    Exclusive,
}

/// Reads one entry; `None` where there is none, or one that is damaged.
pub(super) fn read_entry(path: &Path) -> Result<Option<Entry>, StoreError> {
    let read = File::open(path).and_then(|file| read_at_most(file, MAX_ENTRY_FILE_BYTES));
    match read {
        Ok(text) => Ok(serde_json::from_slice(&text)
            .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "damaged entry"))
            .ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read an entry")(error)),
    }
}

fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
