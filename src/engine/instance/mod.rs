//! This server's own identity: one lock file, held for life.
//!
//! Many servers share one state directory and one daemon. Each owns `<state>/instances/<id>.lock`, holds its lock until
//! it ends, however it ends, and writes into it whose containers it sees to ([`Ledger`]). Whoever finds the lock free
//! takes over what the file says of its own daemon, into its own file first, and removes the other. It may remove only
//! what is its own, or whose lock it found free: that a file is held, or is not there, proves nothing.

mod dead;
mod ledger;
#[cfg(test)]
mod tests;

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::types::{InstanceId, clock};
use dead::{DeadInstance, remove, tidy};
pub(super) use ledger::Charge;
use ledger::{Ledger, State};

/// Instances looked at in one go. Stops a directory that was filled with junk from holding a start up.
const MAX_INSTANCES: usize = 4096;

const SUFFIX: &str = ".lock";
/// The end of the name of a file that is not locked yet.
const NEW: &str = ".new";
/// How often a new file is made anew because somebody took it for one that a crash left. Each time needs a sweep in the
/// instant between two system calls: more than a few are no accident.
const MAX_TRIES: usize = 8;
/// Files of others that are open at a time. Stops many dead servers from taking all the files that this one may open.
const MAX_OPEN: usize = 64;
/// A server that is known to have ended for so long by the wall clock is taken to have. For less than that the clock may have
/// been set, or the machine, with its daemon, may have slept: each server counts by itself.
const LONG_ENDED: Duration = Duration::from_hours(2);

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
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    ledger: Ledger,
    /// What the ledger says of servers that have ended.
    inherited: Vec<Inherited>,
    /// Whether the server has given its own part up.
    retired: bool,
}

/// A charge of a server that has ended.
#[derive(Debug)]
struct Inherited {
    charge: Charge,
    /// How long it is known to have ended when it was taken over, as far as that is certain.
    before: Duration,
    /// From then on no clock that somebody sets counts.
    since: Instant,
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
                    let books = Books {
                        ledger: Ledger::new(lock),
                        inherited: Vec::new(),
                        retired: false,
                    };
                    return Ok(Self {
                        id,
                        directory,
                        books: Mutex::new(books),
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

    /// Notes which daemon this server makes containers on, before it makes the first there. Fails once it has retired.
    pub(super) fn note_daemon(&self, daemon: &str) -> Result<(), InstanceError> {
        let charge = Charge {
            instance: self.id.clone(),
            daemon: daemon.to_owned(),
        };
        let mut books = self.books();
        let noted = if books.retired {
            Err(io::ErrorKind::NotFound.into())
        } else {
            books.ledger.note(&charge, State::Live)
        };
        noted.map_err(|source| InstanceError {
            path: self.path(),
            source,
        })
    }

    /// Gives the instance up if it never noted a daemon, and says whether it did: then it has made nothing, nor can it any
    /// more.
    pub(super) fn retire_unused(&self) -> bool {
        let mut books = self.books();
        let mut open = books.ledger.open().iter();
        if open.any(|(charge, _)| charge.instance == self.id) {
            return false;
        }
        self.give_up(&mut books, &[]);
        true
    }

    /// Nothing of this instance is left on this daemon, nor follows. Removes the file, unless there is something left to do
    /// elsewhere, or of what was taken over: then whoever comes next takes that over. The lock stays until this is dropped.
    pub(super) fn retire(&self, daemon: &str) {
        let own = Charge {
            instance: self.id.clone(),
            daemon: daemon.to_owned(),
        };
        self.give_up(&mut self.books(), &[own]);
    }

    fn give_up(&self, books: &mut Books, done: &[Charge]) {
        books.retired = true;
        let open = books.ledger.open();
        if open.iter().all(|(charge, _)| done.contains(charge)) {
            remove(&self.path());
            return;
        }
        for charge in done {
            if let Err(error) = books.ledger.note(charge, State::Gone) {
                // Whoever takes it over looks for nothing, which does no harm.
                tracing::debug!(%error, "the end of a server not noted");
            }
        }
    }

    /// Takes over what servers of this directory that have ended were to see to on this daemon. Says all that is to be seen
    /// to there, each with how long its server is known to have ended. What a server left that ended in the middle of
    /// making its file is removed.
    pub(super) fn take_over(&self, daemon: &str) -> Result<Vec<(Charge, Duration)>, InstanceError> {
        let failed = |source| InstanceError {
            path: self.directory.clone(),
            source,
        };
        let mut others = Vec::new();
        for entry in std::fs::read_dir(&self.directory)
            .map_err(failed)?
            .take(MAX_INSTANCES)
        {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            tidy(&self.directory, name);
            let id = name.strip_suffix(SUFFIX).map(InstanceId::parse);
            if let Some(Ok(id)) = id
                && id != self.id
            {
                others.push((id, entry.path()));
            }
        }
        let mut books = self.books();
        // Of files that could not be taken over.
        let mut more = Vec::new();
        for some in others.chunks(MAX_OPEN) {
            let claimed = some
                .iter()
                .filter_map(|(id, path)| DeadInstance::claim(id.clone(), path.clone()));
            let dead: Vec<_> = claimed
                .map(|dead| {
                    let theirs = dead.charges(daemon);
                    (dead, theirs)
                })
                .collect();
            if let Err(error) = books.take_from(dead, &self.path(), &mut more) {
                // No reason to leave a container: the files stay, that is all.
                tracing::warn!(%error, "what ended servers left cannot be taken over");
            }
        }
        let mut charges = books.known(daemon);
        for (charge, _) in more {
            if !charges.iter().any(|(known, _)| *known == charge) {
                charges.push((charge, Duration::ZERO));
            }
        }
        Ok(charges)
    }

    /// Counts anew how long these servers are known to have ended, or all: the daemon did not answer meanwhile, or made
    /// something of theirs only now.
    pub(super) fn count_anew(&self, charge: Option<&Charge>) {
        for inherited in &mut self.books().inherited {
            if charge.is_none_or(|charge| *charge == inherited.charge) {
                inherited.before = Duration::ZERO;
                inherited.since = Instant::now();
            }
        }
    }

    /// Nothing is left of it, nor follows.
    pub(super) fn done_with(&self, charge: &Charge) {
        let mut books = self.books();
        if let Err(error) = books.ledger.note(charge, State::Gone) {
            tracing::debug!(%error, "what was taken over and is gone not noted");
            return;
        }
        books
            .inherited
            .retain(|inherited| inherited.charge != *charge);
    }

    /// What the file says of each charge that is open, for tests. Nobody else can read a locked file everywhere.
    #[cfg(test)]
    pub(super) fn open(&self) -> Vec<(InstanceId, String)> {
        let books = self.books();
        let open = books.ledger.open().iter();
        open.map(|(charge, _)| (charge.instance.clone(), charge.daemon.clone()))
            .collect()
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}{SUFFIX}", self.id))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// Takes all of this over into the file `own`, and only then from the files of the dead. What cannot be taken over is
    /// put with `more`.
    fn take_from(
        &mut self,
        dead: Vec<(DeadInstance, Vec<(Charge, State)>)>,
        own: &Path,
        more: &mut Vec<(Charge, State)>,
    ) -> io::Result<()> {
        let inherited = if own.exists() {
            self.inherit(dead.iter().flat_map(|(_, theirs)| theirs))
        } else {
            // Somebody tidied up beneath us: who comes next would not find what is written there.
            Err(io::ErrorKind::NotFound.into())
        };
        if inherited.is_err() {
            more.extend(dead.into_iter().flat_map(|(_, theirs)| theirs));
            return inherited;
        }
        for (mut dead, theirs) in dead {
            dead.strike(&theirs);
        }
        Ok(())
    }

    /// Writes down what others were to see to. Returns once it is kept.
    fn inherit<'a>(&mut self, theirs: impl Iterator<Item = &'a (Charge, State)>) -> io::Result<()> {
        for (charge, state) in theirs {
            if self.inherited.iter().any(|known| known.charge == *charge) {
                continue;
            }
            let end = state.end().unwrap_or_else(clock::file_clock);
            self.ledger.note(charge, State::ended_at(end))?;
            let age = clock::age_of(end);
            self.inherited.push(Inherited {
                charge: charge.clone(),
                before: if age >= LONG_ENDED {
                    age
                } else {
                    Duration::ZERO
                },
                since: Instant::now(),
            });
        }
        // Not only what is new: it may be known from a time when it could not be kept.
        self.ledger.sync()
    }

    /// What was taken over on this daemon, with how long its server is known to have ended.
    fn known(&self, daemon: &str) -> Vec<(Charge, Duration)> {
        let inherited = self.inherited.iter();
        inherited
            .filter(|inherited| inherited.charge.daemon == daemon)
            .map(|inherited| {
                let known_for = inherited.before + inherited.since.elapsed();
                (inherited.charge.clone(), known_for)
            })
            .collect()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.books().ledger.unlock();
    }
}
