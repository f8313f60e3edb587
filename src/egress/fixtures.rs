//! A witness and the rest of a run, for the tests of this row.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::{Decided, Unrecorded, Witness, relay::Shared, vault::Vault};
use crate::config::Profile;

/// What every connection of a run under `profile` needs, without secrets.
pub(super) fn shared(profile: Profile, notes: &Arc<Notes>) -> Arc<Shared> {
    let witness: Arc<dyn Witness> = Arc::clone(notes) as _;
    Arc::new(Shared::new(Arc::new(profile), witness, Vault::default()))
}

/// Keeps every decision; can be told to fail.
#[derive(Debug, Default)]
pub(super) struct Notes {
    seen: Mutex<Vec<Decided>>,
    failing: AtomicBool,
}

impl Notes {
    pub(super) fn shared() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn all(&self) -> Vec<Decided> {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn fail(&self) {
        self.failing.store(true, Ordering::Relaxed);
    }
}

impl Witness for Notes {
    fn saw(&self, decided: &Decided) -> Result<(), Unrecorded> {
        if self.failing.load(Ordering::Relaxed) {
            return Err(Unrecorded);
        }
        self.seen.lock().unwrap().push(decided.clone());
        Ok(())
    }
}
