//! This server's own identity: one lock file, held for life.
//!
//! Many servers share one state directory and one daemon. Each owns `<state>/instances/<id>.lock` and
//! holds its lock until it ends, however it ends. Whoever finds the lock free may remove that
//! instance's containers, and then the file; whoever finds it held, or finds no file at all, may not.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::types::{InstanceId, clock};

/// Instances looked at in one go. Stops a directory that was filled with junk from holding a start up.
const MAX_INSTANCES: usize = 4096;

const SUFFIX: &str = ".lock";
/// The end of the name of a file that is not locked yet.
const NEW: &str = ".new";
/// How often a new file is made anew because somebody took it for one that a crash left. Each time needs a sweep in the
/// instant between two system calls: more than a few are no accident.
const MAX_TRIES: usize = 8;
/// The end of the name of the file that says since when an instance is known to have ended.
const ENDED: &str = ".ended";

/// Bytes read of another instance's file. Daemons' ids are short.
const MAX_NOTE_BYTES: u64 = 256;

/// The lock file could not be made or looked at.
#[derive(Debug, thiserror::Error)]
#[error("cannot make or lock {path}: make the state directory writable, or name another in BELLJAR_STATE_DIR", path = path.display())]
pub struct InstanceError {
    path: PathBuf,
    source: io::Error,
}

/// A running server. Its lock is free once this is dropped.
#[derive(Debug)]
pub struct Instance {
    id: InstanceId,
    directory: PathBuf,
    lock: File,
}

impl Instance {
    /// Makes a new instance file below `state` and locks it.
    pub fn create(state: &Path) -> Result<Self, InstanceError> {
        let directory = state.join("instances");
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| InstanceError { path, source }
        };
        std::fs::create_dir_all(&directory).map_err(failed(&directory))?;
        let mut tries = 0;
        loop {
            let id = InstanceId::random();
            let path = directory.join(format!("{id}{SUFFIX}"));
            // Locked before it bears its name: another server must never meet it with its lock free.
            let new = directory.join(format!("{id}{NEW}"));
            let lock = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&new)
                .map_err(failed(&new))?;
            lock.lock().map_err(failed(&new))?;
            tries += 1;
            match std::fs::rename(&new, &path) {
                Ok(()) => {
                    return Ok(Self {
                        id,
                        directory,
                        lock,
                    });
                }
                // A sweep met it before it was locked.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < MAX_TRIES => {}
                Err(error) => return Err(failed(&path)(error)),
            }
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        &self.id
    }

    /// Where the instance files are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Notes which daemon this server makes containers on, before it makes the first, so that nobody who
    /// speaks to another daemon thinks that they are gone.
    pub fn note_daemon(&self, daemon_id: &str) -> Result<(), InstanceError> {
        let note = || {
            let mut file = &self.lock;
            file.rewind()?;
            // Cut afterwards: at no moment may it look as if no daemon was used.
            file.write_all(daemon_id.as_bytes())?;
            file.set_len(daemon_id.len() as u64)
        };
        note().map_err(|source| InstanceError {
            path: self.directory.clone(),
            source,
        })
    }

    /// Removes the file: nothing of this instance is left on the daemon. The lock stays until this is dropped.
    pub fn retire(&self) {
        let path = self.directory.join(format!("{}{SUFFIX}", self.id));
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "instance file not removed");
        }
    }

    /// The instances of this directory whose server has ended, each held as long as the value lives. What a server left
    /// that ended in the middle of making or of removing such a file is removed.
    pub fn dead(&self) -> Result<Vec<DeadInstance>, InstanceError> {
        let failed = |source| InstanceError {
            path: self.directory.clone(),
            source,
        };
        let mut dead = Vec::new();
        for entry in std::fs::read_dir(&self.directory)
            .map_err(failed)?
            .take(MAX_INSTANCES)
        {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            tidy(&self.directory, name.to_str().unwrap_or_default());
            let Some(id) = name
                .to_str()
                .and_then(|name| name.strip_suffix(SUFFIX))
                .and_then(|id| InstanceId::parse(id).ok())
            else {
                continue;
            };
            if id != self.id
                && let Some(found) = DeadInstance::claim(id, entry.path())
            {
                dead.push(found);
            }
        }
        Ok(dead)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Closing the file frees the lock too; this says so.
        let _ = self.lock.unlock();
    }
}

/// An instance whose server has ended. Two servers never clean up after the same one at a time: the
/// value holds its lock.
#[derive(Debug)]
pub struct DeadInstance {
    id: InstanceId,
    path: PathBuf,
    lock: File,
    /// Empty where it never made a container.
    daemon_id: String,
}

impl DeadInstance {
    /// `None` where the lock is held, or the file is gone meanwhile.
    fn claim(id: InstanceId, path: PathBuf) -> Option<Self> {
        let lock = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        Self::of(id, path, lock)
    }

    fn of(id: InstanceId, path: PathBuf, lock: File) -> Option<Self> {
        match lock.try_lock() {
            // Opened before and locked after another sweep removed it: there is nothing left to clean up, and a mark
            // of its end would stay for good.
            Ok(()) if !path.exists() => None,
            Ok(()) => {
                let mut daemon_id = String::new();
                (&lock)
                    .take(MAX_NOTE_BYTES)
                    .read_to_string(&mut daemon_id)
                    .ok()?;
                Some(Self {
                    id,
                    path,
                    lock,
                    daemon_id,
                })
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    }

    /// Whether its containers, if there are any, are on this daemon.
    #[must_use]
    pub fn used(&self, daemon_id: &str) -> bool {
        self.daemon_id.is_empty() || self.daemon_id == daemon_id
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        &self.id
    }

    /// How long ago it was first found that the server has ended; that is noted by the first call.
    #[must_use]
    pub fn ended_for(&self) -> Duration {
        let mark = self.path.with_extension(&ENDED[1..]);
        let noted = std::fs::metadata(&mark).and_then(|mark| mark.modified());
        if let Ok(noted) = noted {
            return clock::age_of(noted);
        }
        if let Err(error) = File::create(&mark) {
            tracing::debug!(path = %mark.display(), %error, "the end of a server not noted");
        }
        Duration::ZERO
    }

    /// Removes the file: nothing of the instance is left on the daemon.
    pub fn forget(self) {
        let _ = std::fs::remove_file(self.path.with_extension(&ENDED[1..]));
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "instance file not removed");
        }
        let _ = self.lock.unlock();
    }
}

/// Removes a file that is no instance's: one that was made and never locked, since its server was killed between the
/// two, and a mark whose instance is forgotten.
fn tidy(directory: &Path, name: &str) {
    let id = |suffix: &str| {
        let id = name.strip_suffix(suffix);
        id.filter(|id| InstanceId::parse(id).is_ok())
    };
    let path = directory.join(name);
    if id(NEW).is_some() {
        // Its maker, if it lives, waits for the lock, finds the file gone, and makes another.
        if let Ok(lock) = OpenOptions::new().write(true).open(&path)
            && lock.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    } else if let Some(id) = id(ENDED)
        && !directory.join(format!("{id}{SUFFIX}")).exists()
    {
        let _ = std::fs::remove_file(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ended_server_is_dead() {
        let state = tempfile::tempdir().unwrap();
        let ours = Instance::create(state.path()).unwrap();
        let other = Instance::create(state.path()).unwrap();
        assert!(ours.dead().unwrap().is_empty(), "both live");

        let id = other.id().clone();
        drop(other);
        let dead = ours.dead().unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].id(), &id);

        let third = Instance::create(state.path()).unwrap();
        assert!(
            third.dead().unwrap().is_empty(),
            "one cleaner at a time: the dead instance's lock is held"
        );
        for instance in dead {
            instance.forget();
        }
        assert!(third.dead().unwrap().is_empty(), "forgotten");
    }

    #[test]
    fn an_instance_of_another_daemon_is_told_apart() {
        let state = tempfile::tempdir().unwrap();
        let ours = Instance::create(state.path()).unwrap();
        let other = Instance::create(state.path()).unwrap();
        other.note_daemon("first").unwrap();
        other.note_daemon("ABCD").unwrap();
        drop(other);
        let dead = ours.dead().unwrap();
        assert!(dead[0].used("ABCD"));
        assert!(!dead[0].used("WXYZ"));
    }

    #[test]
    fn a_retired_instance_leaves_no_file() {
        let state = tempfile::tempdir().unwrap();
        let ours = Instance::create(state.path()).unwrap();
        ours.retire();
        assert_eq!(std::fs::read_dir(ours.directory()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_server_left_that_was_killed_while_it_made_or_removed_its_file_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let ours = Instance::create(state.path()).unwrap();
        let left = |suffix: &str| {
            let name = format!("{}{suffix}", InstanceId::random());
            ours.directory().join(name)
        };
        let (new, held, mark) = (left(NEW), left(NEW), left(ENDED));
        for path in [&new, &mark] {
            File::create(path).unwrap();
        }
        let holder = File::create(&held).unwrap();
        holder.lock().unwrap();
        assert!(ours.dead().unwrap().is_empty());
        assert!(!new.exists() && !mark.exists());
        assert!(held.exists(), "its maker is at it");
        drop(holder);
        ours.dead().unwrap();
        assert!(!held.exists());
    }

    #[test]
    fn an_instance_that_another_sweep_forgot_meanwhile_is_not_dead_again() {
        let state = tempfile::tempdir().unwrap();
        let ours = Instance::create(state.path()).unwrap();
        let other = Instance::create(state.path()).unwrap();
        let (id, path) = (other.id().clone(), {
            let name = format!("{}{SUFFIX}", other.id());
            ours.directory().join(name)
        });
        drop(other);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        for dead in ours.dead().unwrap() {
            dead.forget();
        }
        assert!(DeadInstance::of(id, path, lock).is_none());
        assert_eq!(std::fs::read_dir(ours.directory()).unwrap().count(), 1);
    }

    #[test]
    fn servers_that_begin_while_others_sweep_all_get_their_file() {
        let state = tempfile::tempdir().unwrap();
        let sweeper = Instance::create(state.path()).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        let all = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(sweeper.dead().unwrap().is_empty());
                }
            });
            let all: Vec<_> = (0..200)
                .map(|_| Instance::create(state.path()).unwrap())
                .collect();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            all
        });
        let files = std::fs::read_dir(sweeper.directory()).unwrap().count();
        assert_eq!(files, all.len() + 1);
    }

    #[test]
    fn strange_files_are_left_alone() {
        let state = tempfile::tempdir().unwrap();
        let ours = Instance::create(state.path()).unwrap();
        for name in ["x.lock", "README", "..lock"] {
            std::fs::write(ours.directory().join(name), "").unwrap();
        }
        assert!(ours.dead().unwrap().is_empty());
    }
}
