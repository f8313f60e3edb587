//! This server's own identity: one lock file, held for life.
//!
//! Many servers share one state directory and one daemon. Each owns `<state>/instances/<id>.lock`, holds its lock until
//! it ends, however it ends, and writes into it whose containers it sees to ([`ledger`]). Whoever finds the lock free
//! takes over what the file says of its own daemon, into its own file first, and removes the other; whoever finds it
//! held, or finds no file at all, may remove nothing.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::ledger::{Charge, Ledger, State};
use crate::types::{InstanceId, clock};

/// Instances looked at in one go. Stops a directory that was filled with junk from holding a start up.
const MAX_INSTANCES: usize = 4096;

const SUFFIX: &str = ".lock";
/// The end of the name of a file that is not locked yet.
const NEW: &str = ".new";
/// How often a new file is made anew because somebody took it for one that a crash left. Each time needs a sweep in the
/// instant between two system calls: more than a few are no accident.
const MAX_TRIES: usize = 8;
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
}

/// A charge of a server that has ended.
#[derive(Debug)]
struct Inherited {
    charge: Charge,
    /// How long it was known to have ended when it was taken over, by the wall clock.
    before: Duration,
    /// From then on no clock that somebody sets counts.
    since: Instant,
}

/// What is to be removed on a daemon.
#[derive(Debug)]
pub(super) struct Heritage {
    /// Of servers that have ended, each with how long that is known.
    pub(super) charges: Vec<(Charge, Duration)>,
    /// Servers that had ended and left nothing.
    pub(super) empty: usize,
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

    /// Notes which daemon this server makes containers on, before it makes the first.
    pub(super) fn note_daemon(&self, daemon: &str) -> Result<(), InstanceError> {
        let charge = Charge {
            instance: self.id.clone(),
            daemon: daemon.to_owned(),
        };
        let noted = self.books().ledger.note(&charge, State::Live);
        noted.map_err(|source| InstanceError {
            path: self.path(),
            source,
        })
    }

    /// Nothing of this instance is left on any daemon, nor follows. Removes the file, unless there is something left to do
    /// of what was taken over: then whoever comes next takes it over. The lock stays until this is dropped.
    pub fn retire(&self) {
        let mut books = self.books();
        let open = books.ledger.open().to_vec();
        let (own, inherited): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|(charge, _)| charge.instance == self.id);
        if inherited.is_empty() {
            remove(&self.path());
            return;
        }
        for (charge, _) in own {
            // Who takes it over looks for nothing, which does no harm.
            if let Err(error) = books.ledger.note(&charge, State::Gone) {
                tracing::debug!(%error, "the end of a server not noted");
            }
        }
    }

    /// Takes over what servers of this directory that have ended were to see to on this daemon, and says all that is to be
    /// seen to there. What a server left that ended in the middle of making or of removing its file is removed.
    pub(super) fn take_over(&self, daemon: &str) -> Result<Heritage, InstanceError> {
        let failed = |source| InstanceError {
            path: self.directory.clone(),
            source,
        };
        let mut books = self.books();
        let mut empty = 0;
        // Of files that could not be taken over.
        let mut more = Vec::new();
        for entry in std::fs::read_dir(&self.directory)
            .map_err(failed)?
            .take(MAX_INSTANCES)
        {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            tidy(&self.directory, name);
            let id = name.strip_suffix(SUFFIX).map(InstanceId::parse);
            if !matches!(id, Some(Ok(id)) if id != self.id) {
                continue;
            }
            let Some(mut dead) = DeadInstance::claim(entry.path()) else {
                continue;
            };
            if dead.ledger.open().is_empty() {
                empty += 1;
                remove(&dead.path);
                continue;
            }
            let theirs = dead.charges(daemon);
            let taken = if self.path().exists() {
                books.inherit(&mut dead, &theirs)
            } else {
                // Somebody tidied up beneath us: who comes next would not find what is written there.
                Err(io::ErrorKind::NotFound.into())
            };
            if let Err(error) = taken {
                // No reason to leave a container: the file stays, that is all.
                tracing::warn!(path = %dead.path.display(), %error, "what an ended server left cannot be taken over");
                more.extend(theirs);
            }
        }
        let inherited = books.inherited.iter();
        let inherited = inherited.filter(|inherited| inherited.charge.daemon == daemon);
        let mut charges: Vec<_> = inherited
            .map(|inherited| {
                let known_for = inherited.before + inherited.since.elapsed();
                (inherited.charge.clone(), known_for)
            })
            .collect();
        for (charge, _) in more {
            if !charges.iter().any(|(known, _)| *known == charge) {
                charges.push((charge, Duration::ZERO));
            }
        }
        Ok(Heritage { charges, empty })
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

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}{SUFFIX}", self.id))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// Writes down what another was to see to, and only then takes it from the other's file.
    fn inherit(&mut self, dead: &mut DeadInstance, theirs: &[(Charge, State)]) -> io::Result<()> {
        for (charge, state) in theirs {
            if self.inherited.iter().any(|known| known.charge == *charge) {
                continue;
            }
            let end = state.end().unwrap_or_else(clock::file_clock);
            self.ledger.note(charge, State::ended_at(end))?;
            self.inherited.push(Inherited {
                charge: charge.clone(),
                before: clock::age_of(end),
                since: Instant::now(),
            });
        }
        if theirs.len() == dead.ledger.open().len() {
            self.ledger.sync()?;
            remove(&dead.path);
            return Ok(());
        }
        // The rest is another daemon's, and stays.
        for (charge, _) in theirs {
            dead.ledger.note(charge, State::Gone)?;
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.books().ledger.unlock();
    }
}

/// The file of an instance whose server has ended. Two servers never take over from the same one at a time: the value
/// holds its lock.
#[derive(Debug)]
struct DeadInstance {
    path: PathBuf,
    ledger: Ledger,
}

impl DeadInstance {
    /// `None` where the lock is held, the file is gone meanwhile, or it means nothing to this version.
    fn claim(path: PathBuf) -> Option<Self> {
        let lock = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        Self::of(path, lock)
    }

    fn of(path: PathBuf, lock: File) -> Option<Self> {
        match lock.try_lock() {
            // Opened before and locked after another sweep took it over.
            Ok(()) if !path.exists() => None,
            Ok(()) => match Ledger::read(lock) {
                Ok(ledger) => Some(Self { path, ledger }),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "an instance file that this version cannot read is left alone");
                    None
                }
            },
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    }

    /// What it was to see to on this daemon.
    fn charges(&self, daemon: &str) -> Vec<(Charge, State)> {
        let mut open = self.ledger.open().to_vec();
        open.retain(|(charge, _)| charge.daemon == daemon);
        open
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "instance file not removed");
    }
}

/// Removes a file that was made and never locked, since its server was killed between the two.
fn tidy(directory: &Path, name: &str) {
    let id = name.strip_suffix(NEW).map(InstanceId::parse);
    let path = directory.join(name);
    if matches!(id, Some(Ok(_))) {
        // Its maker, if it lives, waits for the lock, finds the file gone, and makes another.
        if let Ok(lock) = OpenOptions::new().write(true).open(&path)
            && lock.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const HERE: &str = "ABCD";

    /// A server that made containers here.
    fn server(state: &Path) -> Instance {
        let instance = Instance::create(state).unwrap();
        instance.note_daemon(HERE).unwrap();
        instance
    }

    fn names(charges: Vec<(Charge, Duration)>) -> BTreeSet<InstanceId> {
        let charges = charges.into_iter();
        charges.map(|(charge, _)| charge.instance).collect()
    }

    /// Whose containers are to be removed here.
    fn seen_to(instance: &Instance) -> BTreeSet<InstanceId> {
        names(instance.take_over(HERE).unwrap().charges)
    }

    fn files(instance: &Instance) -> usize {
        std::fs::read_dir(&instance.directory).unwrap().count()
    }

    #[test]
    fn only_an_ended_server_is_taken_over() {
        let state = tempfile::tempdir().unwrap();
        let (ours, other) = (server(state.path()), server(state.path()));
        assert!(seen_to(&ours).is_empty(), "both live");
        let id = other.id().clone();
        drop(other);
        assert_eq!(seen_to(&ours), [id.clone()].into());
        assert_eq!(files(&ours), 1, "its file is gone at once");
        assert_eq!(seen_to(&ours), [id.clone()].into(), "until it is done with");
        let third = server(state.path());
        assert!(seen_to(&third).is_empty(), "one at a time sees to it");
        let daemon = HERE.to_owned();
        ours.done_with(&Charge {
            instance: id,
            daemon,
        });
        assert!(seen_to(&ours).is_empty());
        let own = ours.id().clone();
        drop(ours);
        assert_eq!(
            seen_to(&third),
            [own].into(),
            "nobody sees to the first again"
        );
    }

    #[test]
    fn what_a_server_had_taken_over_goes_to_the_next_with_the_time_it_is_known() {
        let state = tempfile::tempdir().unwrap();
        let mut want = BTreeSet::new();
        // Each takes over from all before it, and is killed.
        for _ in 0..5 {
            let next = server(state.path());
            assert_eq!(seen_to(&next), want);
            want.insert(next.id().clone());
        }
        let hour = Duration::from_hours(1);
        let path = {
            let last = server(state.path());
            let mut books = last.books();
            let long_ago = State::ended_at(clock::file_clock() - hour);
            for instance in &want {
                let charge = Charge {
                    instance: instance.clone(),
                    daemon: HERE.to_owned(),
                };
                books.ledger.note(&charge, long_ago).unwrap();
            }
            drop(books);
            last.path()
        };
        let next = server(state.path());
        assert!(path.exists());
        let heritage = next.take_over(HERE).unwrap();
        assert!(!path.exists());
        let (known, new): (Vec<_>, Vec<_>) = heritage
            .charges
            .into_iter()
            .partition(|(_, known_for)| *known_for >= hour);
        assert_eq!(names(known), want);
        assert_eq!(new.len(), 1, "only the last one ended just now: {new:?}");
    }

    #[test]
    fn a_server_that_ends_in_good_order_hands_on_what_is_not_done_and_nothing_of_its_own() {
        let state = tempfile::tempdir().unwrap();
        let killed = server(state.path());
        let id = killed.id().clone();
        drop(killed);
        for _ in 0..3 {
            let passing = server(state.path());
            assert_eq!(seen_to(&passing), [id.clone()].into());
            passing.retire();
            assert_eq!(files(&passing), 1, "somebody has to see to it");
        }
        let last = server(state.path());
        for (charge, _) in last.take_over(HERE).unwrap().charges {
            last.done_with(&charge);
        }
        last.retire();
        assert_eq!(files(&last), 0);
    }

    #[test]
    fn the_dead_of_another_daemon_stay_for_its_own_servers() {
        let state = tempfile::tempdir().unwrap();
        let ours = server(state.path());
        let both = server(state.path());
        both.note_daemon("first").unwrap();
        let id = both.id().clone();
        drop(both);
        assert_eq!(seen_to(&ours), [id.clone()].into());
        assert_eq!(files(&ours), 2, "there is another daemon");
        let there = Instance::create(state.path()).unwrap();
        let heritage = there.take_over("first").unwrap();
        assert_eq!(heritage.charges[0].0.instance, id);
        assert_eq!(files(&ours), 2, "both servers' own");
    }

    #[test]
    fn a_server_that_made_nothing_leaves_nothing_to_see_to() {
        let state = tempfile::tempdir().unwrap();
        drop(Instance::create(state.path()).unwrap());
        let next = server(state.path());
        let heritage = next.take_over(HERE).unwrap();
        assert_eq!((heritage.charges.len(), heritage.empty), (0, 1));
        assert_eq!(files(&next), 1);
    }

    #[test]
    fn what_cannot_be_written_down_is_seen_to_and_its_file_stays() {
        let state = tempfile::tempdir().unwrap();
        let killed = server(state.path());
        let (id, path) = (killed.id().clone(), killed.path());
        drop(killed);
        let ours = server(state.path());
        // Somebody tidied up beneath a living server.
        std::fs::remove_file(ours.path()).unwrap();
        for _ in 0..2 {
            let heritage = ours.take_over(HERE).unwrap();
            let (charge, known_for) = &heritage.charges[0];
            assert_eq!((&charge.instance, *known_for), (&id, Duration::ZERO));
            assert!(path.exists(), "whoever comes next must find it");
        }
        // A file that takes no line.
        let full = server(state.path());
        let read_only = File::open(full.path()).unwrap();
        full.books().ledger = Ledger::new(read_only);
        assert_eq!(seen_to(&full), [id].into());
        assert!(path.exists());
    }

    #[test]
    fn a_retired_instance_leaves_no_file() {
        let state = tempfile::tempdir().unwrap();
        let ours = server(state.path());
        ours.retire();
        assert_eq!(files(&ours), 0);
    }

    #[test]
    fn a_file_that_was_made_and_never_locked_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let ours = server(state.path());
        let left = || {
            let name = format!("{}{NEW}", InstanceId::random());
            ours.directory.join(name)
        };
        let (new, held) = (left(), left());
        File::create(&new).unwrap();
        let holder = File::create(&held).unwrap();
        holder.lock().unwrap();
        assert!(seen_to(&ours).is_empty());
        assert!(!new.exists());
        assert!(held.exists(), "its maker is at it");
        drop(holder);
        seen_to(&ours);
        assert!(!held.exists());
    }

    #[test]
    fn a_file_that_another_took_over_meanwhile_is_not_taken_over_again() {
        let state = tempfile::tempdir().unwrap();
        let (ours, other) = (server(state.path()), server(state.path()));
        let path = other.path();
        drop(other);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        assert_eq!(seen_to(&ours).len(), 1);
        assert!(DeadInstance::of(path, lock).is_none());
        assert_eq!(files(&ours), 1);
    }

    #[test]
    fn servers_that_begin_while_others_sweep_all_get_their_file() {
        let state = tempfile::tempdir().unwrap();
        let sweeper = Instance::create(state.path()).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        let all = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(seen_to(&sweeper).is_empty());
                }
            });
            let all: Vec<_> = (0..200)
                .map(|_| Instance::create(state.path()).unwrap())
                .collect();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            all
        });
        assert_eq!(files(&sweeper), all.len() + 1);
    }

    #[test]
    fn strange_files_are_left_alone() {
        let state = tempfile::tempdir().unwrap();
        let ours = server(state.path());
        // A name of ours with what a later version may write.
        let later = format!("{}{SUFFIX}", InstanceId::random());
        let names = ["x.lock", "README", "..lock", &later];
        for name in names {
            std::fs::write(ours.directory.join(name), "who knows\n").unwrap();
        }
        assert!(seen_to(&ours).is_empty());
        assert_eq!(files(&ours), names.len() + 1);
    }
}
