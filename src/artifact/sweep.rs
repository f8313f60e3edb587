//! Takes out of the store what has ended: expired first, then the oldest while it is over its cap.
//!
//! Only a sweep removes anything, under the exclusive lock, and never a blob that a live entry names.

use std::{
    collections::HashSet,
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;

use super::{
    disk::{Disk, ENTRY_COST_BYTES, Lock},
    entry::{Entry, Kind},
    index::names_in,
    store::StoreError,
};
use crate::{
    scratch::Scratch,
    types::{Sha256, clock},
};

/// How long an id that has ended is still told from one that never was, beyond the entry's own time to live.
const GONE_AGE: Duration = Duration::from_hours(7 * 24);
/// The most ended ids remembered.
const MAX_GONE: usize = 10_000;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Entries that ended.
    pub ended: usize,
    /// Entries that live on.
    pub kept: usize,
    /// Bytes that live on, each content once.
    pub kept_bytes: u64,
}

impl Disk {
    pub(super) fn sweep(&self, now: Timestamp) -> Result<Swept, StoreError> {
        Scratch::sweep(&self.root.join("tmp")).map_err(StoreError::io("remove a file"))?;
        // Read before the lock is taken: the first time this parses every entry, and nobody should wait for it.
        self.entries()?;
        let _lock = self.lock(Lock::Exclusive)?;
        self.reset_added();
        let mut entries = self.entries()?;
        entries.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        let mut swept = Swept::default();
        let (mut blobs, mut charged, mut full) = (HashSet::new(), 0u64, false);
        for entry in &entries {
            if !entry.is_expired(now) && !full {
                let content = if blobs.contains(&entry.sha256) {
                    0
                } else {
                    entry.bytes
                };
                let cost = content.saturating_add(ENTRY_COST_BYTES);
                // The newest always stays: it is at most the cap, and somebody has just been given its id.
                full = swept.kept > 0
                    && (charged.saturating_add(cost) > self.options.cap_bytes
                        || swept.kept >= self.options.max_entries);
                if !full {
                    charged = charged.saturating_add(cost);
                    blobs.insert(entry.sha256);
                    swept.kept += 1;
                    swept.kept_bytes += content;
                    continue;
                }
            }
            self.end(entry)?;
            swept.ended += 1;
        }
        self.remove_blobs_but(&blobs)?;
        let clock = clock::file_clock();
        remove_old(
            &self.root.join("gone"),
            clock,
            self.options.ttl + GONE_AGE,
            MAX_GONE,
        )?;
        Ok(swept)
    }

    fn end(&self, entry: &Arc<Entry>) -> Result<(), StoreError> {
        let name = entry.file_name();
        let from = self.root.join("entries").join(&name);
        let ended = match entry.kind {
            Kind::Output { .. } | Kind::Artifact { .. } | Kind::Upload => {
                fs::rename(&from, self.root.join("gone").join(&name))
            }
            Kind::Record { .. } => fs::remove_file(&from),
        };
        absent_is_fine(ended).map_err(StoreError::io("end an entry"))
    }

    /// Blobs without an entry are of those that just ended, or of a crash between a blob and its entry.
    fn remove_blobs_but(&self, keep: &HashSet<Sha256>) -> Result<(), StoreError> {
        let failed = || StoreError::io("remove a file");
        let blobs = self.root.join("blobs");
        for part in names_in(&blobs).map_err(failed())? {
            let dir = blobs.join(part);
            for name in names_in(&dir).map_err(failed())? {
                if Sha256::parse(&name).is_ok_and(|sha256| !keep.contains(&sha256))
                    && let Err(error) = absent_is_fine(fs::remove_file(dir.join(name)))
                {
                    // On Windows somebody may be reading it. The next sweep takes it.
                    tracing::debug!(%error, "a blob could not be removed yet");
                }
            }
        }
        Ok(())
    }
}

/// Removes files that were last written more than `age` ago, and the oldest beyond `most`.
fn remove_old(dir: &Path, now: SystemTime, age: Duration, most: usize) -> Result<(), StoreError> {
    let mut files = Vec::new();
    for name in names_in(dir).map_err(StoreError::io("list a directory"))? {
        let path = dir.join(name);
        // What is gone by now needs no removal.
        if let Ok(written) = fs::metadata(&path).and_then(|file| file.modified()) {
            files.push((written, path));
        }
    }
    files.sort_unstable_by(|a, b| b.cmp(a));
    for (at, (written, path)) in files.iter().enumerate() {
        let old = now.duration_since(*written).is_ok_and(|since| since > age);
        if (old || at >= most)
            && let Err(error) = absent_is_fine(fs::remove_file(path))
        {
            tracing::debug!(%error, "an old file could not be removed yet");
        }
    }
    Ok(())
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_seems_to_come_from_the_future_is_not_old() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let left = || fs::read_dir(dir.path()).unwrap().count();
        let age = Duration::from_mins(1);
        let now = clock::file_clock();
        // The clock was set back, then forward.
        remove_old(dir.path(), now - 1000 * age, age, 3).unwrap();
        assert_eq!(left(), 3);
        remove_old(dir.path(), now, age, 2).unwrap();
        assert_eq!(left(), 2, "the oldest beyond the most");
        remove_old(dir.path(), now + 2 * age, age, 3).unwrap();
        assert_eq!(left(), 0);
    }
}
