//! What is remembered of sessions that ended, so that their callers hear why.

use std::collections::VecDeque;

use super::Gone;
use crate::types::{Caller, SandboxId};

/// How many ended sessions are remembered: opening and closing in a loop must not fill the memory. The oldest is
/// forgotten first, and is an unknown session from then on.
const MAX_TOMBSTONES: usize = 1024;

/// The ended sessions, the latest last.
#[derive(Debug, Default)]
pub(super) struct Tombstones(VecDeque<(SandboxId, Caller, Gone)>);

impl Tombstones {
    pub(super) fn add(&mut self, id: SandboxId, caller: Caller, why: Gone) {
        if self.0.len() == MAX_TOMBSTONES {
            self.0.pop_front();
        }
        self.0.push_back((id, caller, why));
    }

    /// Why the session ended; only its own caller learns it.
    pub(super) fn find(&self, caller: &Caller, id: &SandboxId) -> Option<Gone> {
        let mut latest_first = self.0.iter().rev();
        latest_first
            .find(|(dead, owner, _)| dead == id && owner == caller)
            .map(|(_, _, why)| *why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut tombstones = Tombstones::default();
        let first = SandboxId::random();
        let find = |tombstones: &Tombstones| tombstones.find(&Caller::Local, &first);
        tombstones.add(first.clone(), Caller::Local, Gone::Closed);
        for _ in 1..MAX_TOMBSTONES {
            tombstones.add(SandboxId::random(), Caller::Local, Gone::Lost);
        }
        assert_eq!(find(&tombstones), Some(Gone::Closed));
        tombstones.add(SandboxId::random(), Caller::Local, Gone::Lost);
        assert_eq!(find(&tombstones), None);
        assert_eq!(tombstones.0.len(), MAX_TOMBSTONES);
    }
}
