//! What two sandboxes must have in common for one to stand in for the other.
//!
//! Nothing of a caller is in it: a sandbox that waits has served nobody. Nor is what a program may reach: that is opened
//! while the program runs.

use crate::{policy::Launch, types::Cpus};

/// A launch without what the server keeps by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    image: String,
    shm_mib: u32,
    workspace_mib: u32,
    memory_mib: u32,
    cpus: Cpus,
    pids: u32,
    /// Which interpreter waits in it.
    kind: usize,
}

impl Class {
    /// The class of a launch. The limit of output is not in it: the server keeps that one itself.
    pub(super) fn of(launch: &Launch) -> Self {
        let Launch {
            image,
            shm_mib,
            limits,
            warm_up,
        } = launch;
        Self {
            kind: warm_up.as_ref().map_or(0, |warm_up| warm_up.kind),
            image: image.clone(),
            shm_mib: *shm_mib,
            workspace_mib: limits.workspace_mib,
            memory_mib: limits.memory_mib,
            cpus: limits.cpus,
            pids: limits.pids,
        }
    }

    /// Whether it is the same but for the interpreter that waits: then either can stand in for the other.
    pub(super) fn is_kin(&self, other: &Self) -> bool {
        self.kind != other.kind
            && *self
                == Self {
                    kind: self.kind,
                    ..other.clone()
                }
    }

    /// The image's reference.
    pub(super) fn image(&self) -> &str {
        &self.image
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Limits;

    fn class(change: impl FnOnce(&mut Launch)) -> Class {
        let mut launch = Launch {
            image: "belljar/python:latest".to_owned(),
            shm_mib: 64,
            limits: Limits::DEFAULT,
            warm_up: None,
        };
        change(&mut launch);
        Class::of(&launch)
    }

    #[test]
    fn output_makes_no_class_and_everything_else_does() {
        let base = class(|_| {});
        assert_eq!(base, class(|launch| launch.limits.output_kib += 1));
        for other in [
            class(|launch| launch.image.push('x')),
            class(|launch| launch.shm_mib += 1),
            class(|launch| launch.limits.workspace_mib += 1),
            class(|launch| launch.limits.memory_mib += 1),
            class(|launch| launch.limits.pids += 1),
            class(|launch| launch.limits.cpus = Cpus::from_millis(1)),
        ] {
            assert_ne!(base, other);
            assert!(!base.is_kin(&other));
        }
    }

    #[test]
    fn those_that_differ_in_the_waiting_interpreter_alone_are_kin() {
        let kind = |number: usize| Class {
            kind: number,
            ..class(|_| {})
        };
        assert!(kind(0).is_kin(&kind(1)) && kind(1).is_kin(&kind(0)));
        assert!(!kind(0).is_kin(&kind(0)));
    }
}
