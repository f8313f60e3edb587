//! The proof that an action was allowed.

use crate::types::{Caller, Limits, Network};

/// Proof that `action` was allowed to `caller`. Its fields are private and only this module's parent makes one.
#[derive(Clone, Debug)]
pub struct Permit<A> {
    action: A,
    caller: Caller,
}

impl<A> Permit<A> {
    pub(super) fn new(action: A, caller: Caller) -> Self {
        Self { action, caller }
    }

    /// What was allowed.
    #[must_use]
    pub fn action(&self) -> &A {
        &self.action
    }

    /// To whom.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}

/// The start of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The image's reference on the daemon, from the operator's configuration or the built-in catalogue,
    /// never from a caller.
    pub image: String,
    /// Size of `/dev/shm` in MiB.
    pub shm_mib: u32,
    /// Limits within the operator's ceilings.
    pub limits: Limits,
    /// What the sandbox may reach.
    pub network: Network,
}

#[cfg(test)]
impl Permit<Launch> {
    /// A permit for the tests of rows above.
    pub(crate) fn for_tests(launch: Launch) -> Self {
        Self::new(launch, Caller::Local)
    }
}
