//! A folder for the files that one process has on their way, which the next process removes if this one is killed.
//!
//! It must never remove what a living process has: only a lock that is free says that its owner has ended.
//!
//! # Theory of operation
//! ```text
//! <root>/<id>/        files on their way, of one process
//! <root>/<id>.lock    locked for as long as that process lives, however it ends
//! ```
//! The age of a file says nothing of whether somebody still writes it; a lock that is free does. The lock file is made
//! first and removed last, so that no folder is ever without one. Whoever removes holds the lock; a process
//! whose new lock file was taken for one that a crash left finds it gone once it has the lock, and makes another.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::types::random_hex;

/// Random bytes in the name of a folder: no two ever meet.
const NAME_BYTES: usize = 16;
const LOCK: &str = ".lock";
/// How often a lock file is made anew because somebody removed it before it was locked.
const MAX_TRIES: usize = 8;
/// Folders looked at in one sweep. Stops a folder that was filled with junk from holding a start up.
const MAX_SWEPT: usize = 4096;

/// The folder of this process. It is removed with all that is in it by [`Self::clear`], or else when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
    /// Held, never read.
    lock: File,
}

impl Scratch {
    /// Makes a folder of this process's own in `root`, which must exist; only this user can look into it.
    pub(crate) fn make(root: &Path) -> io::Result<Self> {
        for _ in 0..MAX_TRIES {
            let dir = root.join(random_hex::<NAME_BYTES>());
            let path = lock_of(&dir);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let lock = options.open(&path)?;
            lock.lock()?;
            if path.exists() {
                let mut builder = fs::DirBuilder::new();
                builder.recursive(false);
                #[cfg(unix)]
                std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
                let made = Self { dir, lock };
                builder.create(&made.dir)?;
                return Ok(made);
            }
        }
        Err(io::Error::other(
            "every new lock file was removed at once by another process",
        ))
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the folder: nothing is on its way any more. A process that ends in good order does so while it still waits
    /// for it; whoever holds this last may be a thread that the end of the process cuts off.
    pub(crate) fn clear(&self) {
        if let Err(error) = remove(&self.dir) {
            tracing::debug!(dir = %self.dir.display(), %error, "files on their way not removed");
        }
    }

    /// Removes the folders in `root` of processes that have ended. Those of others, and whatever else lies there, stay.
    /// One that cannot be removed is told in the log and keeps none of the others, nor what is swept after them. Where
    /// there is no `root` there is nothing to do.
    pub(crate) fn sweep(root: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries.take(MAX_SWEPT) {
            let name = entry?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(LOCK)) else {
                continue;
            };
            if !is_ours(id) {
                continue;
            }
            // Gone by now, or not ours to open: either way nothing to remove.
            let Ok(lock) = OpenOptions::new().write(true).open(root.join(&name)) else {
                continue;
            };
            let dir = root.join(id);
            if lock.try_lock().is_ok()
                && let Err(error) = remove(&dir)
            {
                tracing::warn!(dir = %dir.display(), %error, "what an ended process had on its way cannot be removed");
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.clear();
        let _ = self.lock.unlock();
    }
}

fn lock_of(dir: &Path) -> PathBuf {
    dir.with_extension(&LOCK[1..])
}

fn is_ours(id: &str) -> bool {
    id.len() == 2 * NAME_BYTES && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Removes a folder, then its lock file. The caller holds the lock.
fn remove(dir: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_dir_all(dir))?;
    absent_is_fine(fs::remove_file(lock_of(dir)))
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

    fn names(root: &Path) -> usize {
        fs::read_dir(root).unwrap().count()
    }

    /// As a process leaves it that was killed: its lock is free, nothing else happened.
    fn killed(root: &Path) -> PathBuf {
        let scratch = Scratch::make(root).unwrap();
        let dir = scratch.dir().to_owned();
        fs::write(dir.join("half"), "ha").unwrap();
        scratch.lock.unlock().unwrap();
        std::mem::forget(scratch);
        dir
    }

    #[test]
    fn what_a_killed_process_left_goes_and_what_a_living_one_has_stays() {
        let root = tempfile::tempdir().unwrap();
        let living = Scratch::make(root.path()).unwrap();
        fs::write(living.dir().join("half"), "ha").unwrap();
        let dead = killed(root.path());
        // Killed between the two steps of making it.
        fs::write(lock_of(&root.path().join(random_hex::<NAME_BYTES>())), "").unwrap();
        Scratch::sweep(root.path()).unwrap();
        assert!(!dead.exists());
        assert!(living.dir().join("half").exists());
        assert_eq!(names(root.path()), 2, "the living one's folder and lock");
        drop(living);
        assert_eq!(names(root.path()), 0);
    }

    #[test]
    fn other_files_stay_and_no_folder_is_no_error() {
        let root = tempfile::tempdir().unwrap();
        for name in ["x.lock", "..lock", ".tmpold", "README"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        Scratch::sweep(root.path()).unwrap();
        assert_eq!(names(root.path()), 4);
        Scratch::sweep(&root.path().join("absent")).unwrap();
    }

    #[test]
    fn one_that_cannot_be_removed_keeps_no_other() {
        let root = tempfile::tempdir().unwrap();
        // Some before it and some after it, in whatever order the folder is read.
        let before: Vec<_> = (0..8).map(|_| killed(root.path())).collect();
        let stuck = killed(root.path());
        fs::remove_dir_all(&stuck).unwrap();
        fs::write(&stuck, "no folder").unwrap();
        let after: Vec<_> = (0..8).map(|_| killed(root.path())).collect();
        Scratch::sweep(root.path()).unwrap();
        assert!(before.iter().chain(&after).all(|dir| !dir.exists()));
        assert!(stuck.exists());
    }

    #[test]
    fn processes_that_begin_while_others_sweep_all_get_their_folder() {
        let root = tempfile::tempdir().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    Scratch::sweep(root.path()).unwrap();
                }
            });
            let all: Vec<_> = (0..200)
                .map(|_| Scratch::make(root.path()).unwrap())
                .collect();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(all.iter().all(|scratch| scratch.dir().is_dir()));
        });
        assert_eq!(names(root.path()), 0);
    }
}
