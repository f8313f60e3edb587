//! All sessions of this server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dashmap::DashMap;
use jiff::Timestamp;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    Ended, Gone, Lease, SessionError, entry::Entry, error::MAX_LISTED, tombstone::Tombstones,
};
use crate::{
    policy::SessionTerms,
    types::{Caller, SandboxId},
};

/// How long `close` waits for the running call to stop before it leaves the rest to the sweep.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
/// How often sessions are looked through while there are any.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// All sessions of this server. `S` is a handle to a sandbox; a clone is the same sandbox.
#[derive(Debug)]
pub struct Sessions<S> {
    inner: Arc<Inner<S>>,
}

// Derived, this would ask `S: Clone` of everybody who only passes the registry on.
impl<S> Clone for Sessions<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

#[derive(Debug)]
struct Inner<S> {
    max: u32,
    places: Arc<Mutex<Places>>,
    live: DashMap<SandboxId, Arc<Entry<S>>>,
    /// Buried, and not handed out yet.
    ending: Mutex<Vec<Arc<Entry<S>>>>,
    tombstones: Mutex<Tombstones>,
    /// Wakes the sweep when the first session is opened.
    stirred: Notify,
}

#[derive(Debug, Default)]
struct Places {
    held: HashMap<Caller, u32>,
    stopping: bool,
}

/// A place for one session of one caller; free again when dropped.
#[derive(Debug)]
pub struct Place {
    caller: Caller,
    places: Arc<Mutex<Places>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = lock(&self.places);
        if let Some(held) = places.held.get_mut(&self.caller) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                places.held.remove(&self.caller);
            }
        }
    }
}

/// What a caller learns about the session it opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The session's id.
    pub id: SandboxId,
    /// When its lease is over.
    pub expires_at: Timestamp,
}

impl<S> Sessions<S> {
    /// A registry where each caller may have `max` sessions.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self {
            inner: Arc::new(Inner {
                max,
                places: Arc::default(),
                live: DashMap::new(),
                ending: Mutex::default(),
                tombstones: Mutex::default(),
                stirred: Notify::new(),
            }),
        }
    }

    /// Takes a place for a session, before its sandbox is made.
    pub fn reserve(&self, caller: &Caller) -> Result<Place, SessionError> {
        let mut places = lock(&self.inner.places);
        if places.stopping {
            return Err(SessionError::Stopping);
        }
        let held = places.held.entry(caller.clone()).or_default();
        if *held >= self.inner.max {
            return Err(SessionError::TooMany {
                most: self.inner.max,
                oldest: self.oldest(caller),
            });
        }
        *held += 1;
        Ok(Place {
            caller: caller.clone(),
            places: Arc::clone(&self.inner.places),
        })
    }

    fn oldest(&self, caller: &Caller) -> Vec<SandboxId> {
        let mut own: Vec<(Instant, SandboxId)> = self
            .inner
            .live
            .iter()
            .filter(|entry| entry.caller == *caller)
            .map(|entry| (entry.opened, entry.id.clone()))
            .collect();
        own.sort_unstable();
        own.truncate(MAX_LISTED);
        own.into_iter().map(|(_, id)| id).collect()
    }

    /// Opens the session of the caller who reserved `place`. Where the server has begun to stop meanwhile, the
    /// sandbox is given back to be destroyed.
    pub fn insert(
        &self,
        place: Place,
        id: SandboxId,
        terms: SessionTerms,
        sandbox: S,
    ) -> Result<Opened, S> {
        let places = Arc::clone(&place.places);
        // Held until the session is in: `drain` sets `stopping` first and must miss none.
        let places = lock(&places);
        if places.stopping {
            drop(places);
            return Err(sandbox);
        }
        let caller = place.caller.clone();
        let entry = Entry::new(id.clone(), caller, terms, sandbox, place);
        let expires_at = entry.expires_at;
        self.inner.live.insert(id.clone(), Arc::new(entry));
        self.inner.stirred.notify_one();
        Ok(Opened { id, expires_at })
    }

    /// What the caller's session was opened with.
    pub fn terms(&self, caller: &Caller, id: &str) -> Result<SessionTerms, SessionError> {
        self.find(caller, id).map(|entry| entry.terms.clone())
    }

    /// How many sessions are live.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inner.live.len()
    }

    /// The caller's live session of that id. Another caller's is as unknown as one that never was.
    fn find(&self, caller: &Caller, id: &str) -> Result<Arc<Entry<S>>, SessionError> {
        let id = SandboxId::parse(id).map_err(|_| SessionError::Unknown)?;
        // Cloned out at once: no lock of the map is held for longer than the look.
        let entry = self.inner.live.get(&id).map(|entry| Arc::clone(&entry));
        if let Some(entry) = entry.filter(|entry| entry.caller == *caller) {
            // The sweep may be late; the lease is over all the same.
            if entry.end_if_due(Instant::now()) {
                self.lay_to_rest(&entry);
            }
            return match entry.ended() {
                Some(why) => Err(SessionError::Gone(why)),
                None => Ok(entry),
            };
        }
        let gone = lock(&self.inner.tombstones).find(caller, &id);
        Err(gone.map_or(SessionError::Unknown, SessionError::Gone))
    }

    /// Ends a session: no call finds it any more, and its running one is told to stop.
    pub(super) fn bury(&self, entry: &Arc<Entry<S>>, why: Gone) {
        if entry.end(why) {
            self.lay_to_rest(entry);
        }
    }

    /// Moves a session that was just marked as ended from the live to the ending ones. Called once for each.
    fn lay_to_rest(&self, entry: &Arc<Entry<S>>) {
        if let Some(why) = entry.ended() {
            let (id, caller) = (entry.id.clone(), entry.caller.clone());
            lock(&self.inner.tombstones).add(id, caller, why);
        }
        lock(&self.inner.ending).push(Arc::clone(entry));
        self.inner.live.remove(&entry.id);
        entry.ending.cancel();
        self.inner.stirred.notify_one();
    }

    /// Hands out the sandbox of a buried session; `None` where somebody has it already.
    pub(super) fn hand_out(&self, entry: &Arc<Entry<S>>) -> Option<Ended<S>> {
        lock(&self.inner.ending).retain(|other| !Arc::ptr_eq(other, entry));
        entry.hand_out()
    }

    /// Closes the caller's session: tells its running call to stop, waits for that, and hands out the sandbox.
    /// `None` where the sweep will hand it out, or has done so.
    pub async fn close(&self, caller: &Caller, id: &str) -> Result<Option<Ended<S>>, SessionError> {
        let entry = self.find(caller, id)?;
        self.bury(&entry, Gone::Closed);
        let turn = timeout(CLOSE_PATIENCE, entry.turn.acquire()).await;
        Ok(match turn {
            Ok(_turn) => self.hand_out(&entry),
            Err(_elapsed) => None,
        })
    }

    /// Ends what is over, and hands out the sandboxes of ended sessions that nobody uses any more.
    #[must_use = "the sandboxes must be destroyed"]
    pub fn sweep(&self, now: Instant) -> Vec<Ended<S>> {
        // Collected first: nothing may be removed while the map is walked.
        let live: Vec<Arc<Entry<S>>> = self
            .inner
            .live
            .iter()
            .map(|entry| Arc::clone(&entry))
            .collect();
        for entry in live {
            if entry.end_if_due(now) {
                self.lay_to_rest(&entry);
            }
        }
        let ending = lock(&self.inner.ending).clone();
        ending
            .iter()
            .filter_map(|entry| {
                let _turn = entry.turn.try_acquire().ok()?;
                self.hand_out(entry)
            })
            .collect()
    }

    /// Sweeps for as long as it is polled, and passes what ended to `destroy`, which must not block.
    pub async fn keep_swept(&self, mut destroy: impl FnMut(Ended<S>)) {
        loop {
            if self.inner.live.is_empty() && lock(&self.inner.ending).is_empty() {
                self.inner.stirred.notified().await;
            }
            sleep(SWEEP_EVERY).await;
            for ended in self.sweep(Instant::now()) {
                destroy(ended);
            }
        }
    }

    /// Ends every session because the server stops, waits up to `patience` for running calls, and hands out every
    /// sandbox, also those whose call did not stop in time. No session can be opened from then on.
    #[must_use = "the sandboxes must be destroyed"]
    pub async fn drain(&self, patience: Duration) -> Vec<Ended<S>> {
        lock(&self.inner.places).stopping = true;
        let deadline = Instant::now() + patience;
        let live: Vec<Arc<Entry<S>>> = self
            .inner
            .live
            .iter()
            .map(|entry| Arc::clone(&entry))
            .collect();
        for entry in &live {
            self.bury(entry, Gone::Stopping);
        }
        let ending = lock(&self.inner.ending).clone();
        let mut ended = Vec::new();
        for entry in &ending {
            // Whether the turn came or the time was over: a container must not stay.
            let _turn = timeout_at(deadline, entry.turn.acquire()).await;
            ended.extend(self.hand_out(entry));
        }
        ended
    }
}

impl<S: Clone> Sessions<S> {
    /// Waits for the caller's session to be free and takes it for one call. The session may end meanwhile, and
    /// then this says so at once.
    pub async fn lease(&self, caller: &Caller, id: &str) -> Result<Lease<S>, SessionError> {
        let entry = self.find(caller, id)?;
        let user = entry.join()?;
        let turn = tokio::select! {
            biased;
            () = entry.ending.cancelled() => None,
            turn = Arc::clone(&entry.turn).acquire_owned() => turn.ok(),
        };
        let Some(turn) = turn else {
            let why = entry.ended();
            return Err(why.map_or(SessionError::Unknown, SessionError::Gone));
        };
        let sandbox = entry.sandbox()?;
        Ok(Lease::new(sandbox, entry, self.clone(), user, turn))
    }
}

/// No state in here is left half-changed by a panic while it is locked, so a poisoned lock is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
