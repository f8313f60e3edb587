//! The proof that an action was allowed.

use std::collections::BTreeMap;

use super::plan::environment;
use crate::types::{Caller, Limits};

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

impl Permit<Launch> {
    /// The same launch at `limits`, if a running sandbox made with those can be raised to this launch's: memory,
    /// processors and processes can be raised while it runs, the size of its workspace is fixed for good, and nothing
    /// is ever lowered, since what a program has it may be using. It says nothing of who gets the sandbox: for that, a
    /// caller's own permit is needed.
    #[must_use]
    pub fn lowered(&self, limits: &Limits) -> Option<Self> {
        let most = &self.action.limits;
        let fits = limits.memory_mib <= most.memory_mib
            && limits.cpus <= most.cpus
            && limits.pids <= most.pids
            && limits.workspace_mib == most.workspace_mib;
        fits.then(|| {
            let mut lowered = self.clone();
            lowered.action.limits = Limits {
                output_kib: most.output_kib,
                ..*limits
            };
            lowered
        })
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
    /// The interpreter that may wait in it for its program, if the image has one that can.
    pub warm_up: Option<WarmUp>,
}

/// An interpreter to start before its program is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// Its number among the kinds of the image. Any kind can run any program.
    pub kind: usize,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Cpus;

    fn permit(limits: Limits) -> Permit<Launch> {
        Permit::for_tests(Launch {
            image: "belljar/python:latest".to_owned(),
            shm_mib: 64,
            limits,
            warm_up: None,
        })
    }

    #[test]
    fn a_launch_is_lowered_only_to_what_can_be_raised_to_it() {
        const BASE: Limits = Limits::DEFAULT;
        let more = Limits {
            memory_mib: BASE.memory_mib * 2,
            cpus: Cpus::from_millis(2000),
            pids: BASE.pids + 1,
            output_kib: BASE.output_kib + 1,
            ..BASE
        };
        let lowered = permit(more).lowered(&BASE).unwrap();
        let expected = Limits {
            output_kib: more.output_kib,
            ..BASE
        };
        assert_eq!(lowered.action().limits, expected);
        assert_eq!(lowered.action().image, "belljar/python:latest");
        assert!(permit(BASE).lowered(&BASE).is_some());
        for less in [
            Limits {
                memory_mib: BASE.memory_mib - 1,
                ..more
            },
            Limits {
                pids: BASE.pids - 1,
                ..more
            },
            Limits {
                cpus: Cpus::from_millis(999),
                ..more
            },
            Limits {
                workspace_mib: BASE.workspace_mib + 1,
                ..more
            },
            Limits {
                workspace_mib: BASE.workspace_mib - 1,
                ..more
            },
        ] {
            assert!(permit(less).lowered(&BASE).is_none(), "{less:?}");
        }
    }
}
