//! The exclusive use of a session, for one call.

use std::{ops::Deref, sync::Arc};

use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::WaitForCancellationFuture;

use super::{
    Ended, Gone, Sessions,
    entry::{Entry, User},
};
use crate::{policy::SessionTerms, types::SandboxId};

/// The exclusive use of a session's sandbox, until it is dropped. It dereferences to the sandbox.
///
/// The holder must end its call soon after [`Lease::ending`] resolves.
#[derive(Debug)]
pub struct Lease<S: Clone> {
    // Dropped in this order: the turn goes last, when no handle of this lease is left.
    sandbox: S,
    entry: Arc<Entry<S>>,
    sessions: Sessions<S>,
    _user: User<S>,
    _turn: OwnedSemaphorePermit,
}

impl<S: Clone> Lease<S> {
    pub(super) fn new(
        sandbox: S,
        entry: Arc<Entry<S>>,
        sessions: Sessions<S>,
        user: User<S>,
        turn: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            sandbox,
            entry,
            sessions,
            _user: user,
            _turn: turn,
        }
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SandboxId {
        &self.entry.id
    }

    /// What the session was opened with.
    #[must_use]
    pub fn terms(&self) -> &SessionTerms {
        &self.entry.terms
    }

    /// When the session's lease is over.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.entry.expires_at
    }

    /// Resolves when the session ends under the call: it is closed, its lease is over, or the server stops.
    pub fn ending(&self) -> WaitForCancellationFuture<'_> {
        self.entry.ending.cancelled()
    }

    /// Ends the session because its sandbox died or broke its protocol, and hands out what is left of it; `None`
    /// where that has been handed out already.
    #[must_use = "the sandbox must be destroyed"]
    pub fn lost(self) -> Option<Ended<S>> {
        self.sessions.bury(&self.entry, Gone::Lost);
        self.sessions.hand_out(&self.entry)
    }
}

impl<S: Clone> Deref for Lease<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.sandbox
    }
}
