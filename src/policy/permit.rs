//! The proof that an action was allowed.

use std::collections::BTreeMap;

use super::plan::environment;
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
    /// The interpreter that may wait in it for its program, if the image has one that can.
    pub warm_up: Option<WarmUp>,
}

/// An interpreter to start before its program is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// The language's command with the program's absolute path.
    pub argv: Vec<String>,
    /// The variables that every program of the language has.
    pub image_env: BTreeMap<String, String>,
    /// The variables that tell the image's hook to wait.
    pub hook_env: BTreeMap<String, String>,
    /// What it takes while it waits, in MiB, on top of the limits.
    pub memory_mib: u32,
}

impl WarmUp {
    /// Its whole environment in the sandbox of user `uid`: as a program's without variables of a caller's, see
    /// [`RunPlan::environment`](super::RunPlan::environment), and what tells it to wait.
    #[must_use]
    pub fn environment(&self, uid: u32, image_path: Option<&str>) -> Vec<(String, String)> {
        environment(&[&self.image_env, &self.hook_env], uid, image_path)
    }
}

#[cfg(test)]
impl Permit<Launch> {
    /// A permit for the tests of rows above.
    pub(crate) fn for_tests(launch: Launch) -> Self {
        Self::new(launch, Caller::Local)
    }
}
