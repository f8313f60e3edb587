//! One session: its state, and the guard of everybody who uses or awaits it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Gone, Place, SessionError, error::MAX_WAITING};
use crate::{
    policy::SessionTerms,
    types::{Caller, SandboxId, clock},
};

/// A session that ended, with its sandbox: whoever receives it destroys that. The caller's place is free again
/// once this is dropped.
#[derive(Debug)]
pub struct Ended<S> {
    /// The session's id, which is its container's.
    pub id: SandboxId,
    /// Whose it was.
    pub caller: Caller,
    /// Why it ended.
    pub why: Gone,
    /// What must be destroyed.
    pub sandbox: S,
    /// Held until the sandbox is gone, so that callers cannot have more of them than are allowed.
    pub place: Place,
}

/// A live or ending session.
#[derive(Debug)]
pub(super) struct Entry<S> {
    pub(super) id: SandboxId,
    pub(super) caller: Caller,
    pub(super) terms: SessionTerms,
    /// When the session was opened; for listing the oldest first.
    pub(super) opened: Instant,
    /// When its lease is over, by the clock that callers know.
    pub(super) expires_at: Timestamp,
    /// One permit: whoever holds it uses the sandbox. First come, first served.
    pub(super) turn: Arc<Semaphore>,
    /// Cancelled when the session ends.
    pub(super) ending: CancellationToken,
    state: Mutex<State<S>>,
}

#[derive(Debug)]
struct State<S> {
    /// Absent once handed out.
    sandbox: Option<(S, Place)>,
    /// Calls that hold or await the turn.
    users: usize,
    /// When the last of them went.
    idle_since: Instant,
    ended: Option<Gone>,
}

impl<S> Entry<S> {
    pub(super) fn new(
        id: SandboxId,
        caller: Caller,
        terms: SessionTerms,
        sandbox: S,
        place: Place,
    ) -> Self {
        let now = Instant::now();
        let expires_at = clock::wall_clock()
            .checked_add(terms.ttl)
            .unwrap_or(Timestamp::MAX);
        Self {
            id,
            caller,
            terms,
            opened: now,
            expires_at,
            turn: Arc::new(Semaphore::new(1)),
            ending: CancellationToken::new(),
            state: Mutex::new(State {
                sandbox: Some((sandbox, place)),
                users: 0,
                idle_since: now,
                ended: None,
            }),
        }
    }

    /// No state is left half-changed by a panic while it is locked, so a poisoned lock is as good as any.
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins those who use or await the session.
    pub(super) fn join(self: &Arc<Self>) -> Result<User<S>, SessionError> {
        let mut state = self.state();
        if let Some(why) = state.ended {
            return Err(SessionError::Gone(why));
        }
        if state.users > MAX_WAITING {
            return Err(SessionError::Busy);
        }
        state.users += 1;
        Ok(User(Arc::clone(self)))
    }

    /// Marks the session as ended; the first reason stays. Whether this call was the one that ended it.
    pub(super) fn end(&self, why: Gone) -> bool {
        let mut state = self.state();
        let first = state.ended.is_none();
        state.ended.get_or_insert(why);
        first
    }

    /// Marks the session as ended if at `now` it is over. Whether this call was the one that ended it.
    pub(super) fn end_if_due(&self, now: Instant) -> bool {
        let mut state = self.state();
        let (ttl, idle) = (self.terms.ttl, self.terms.idle);
        let why = if now.saturating_duration_since(self.opened) >= ttl {
            Gone::LeaseOver {
                seconds: ttl.as_secs(),
            }
        } else if state.users == 0 && now.saturating_duration_since(state.idle_since) >= idle {
            Gone::Idle {
                seconds: idle.as_secs(),
            }
        } else {
            return false;
        };
        let first = state.ended.is_none();
        state.ended.get_or_insert(why);
        first
    }

    /// Why the session ended, if it did.
    pub(super) fn ended(&self) -> Option<Gone> {
        self.state().ended
    }

    /// Hands out the sandbox of a session that ended; once only. The caller holds the turn, or forces it.
    pub(super) fn hand_out(&self) -> Option<Ended<S>> {
        let mut state = self.state();
        let why = state.ended?;
        let (sandbox, place) = state.sandbox.take()?;
        Some(Ended {
            id: self.id.clone(),
            caller: self.caller.clone(),
            why,
            sandbox,
            place,
        })
    }
}

impl<S: Clone> Entry<S> {
    /// A handle to the sandbox, for who holds the turn.
    pub(super) fn sandbox(&self) -> Result<S, SessionError> {
        let state = self.state();
        match (&state.sandbox, state.ended) {
            (_, Some(why)) => Err(SessionError::Gone(why)),
            (Some((sandbox, _)), None) => Ok(sandbox.clone()),
            // Only what ended is ever handed out.
            (None, None) => Err(SessionError::Unknown),
        }
    }
}

/// One who uses or awaits a session. The idle time starts anew when the last one goes.
#[derive(Debug)]
pub(super) struct User<S>(Arc<Entry<S>>);

impl<S> Drop for User<S> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.users = state.users.saturating_sub(1);
        state.idle_since = Instant::now();
    }
}
