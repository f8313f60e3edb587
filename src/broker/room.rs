//! A session's sandbox with what the broker keeps beside it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::gate::Place;
use crate::{artifact::Entry, engine::Sandbox, types::WorkspacePath};

/// Files of one session that are remembered as fetched. Stops a caller who fetches ever new paths from growing
/// the server; a file that is forgotten is copied again.
const MAX_REMEMBERED: usize = 256;

/// The sandbox of one session.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) sandbox: Arc<Sandbox>,
    used: AtomicBool,
    /// Copies that are still the same as the files: between two runs nothing changes inside.
    fetched: Mutex<HashMap<WorkspacePath, Entry>>,
    _place: Place,
}

impl Room {
    pub(super) fn new(sandbox: Arc<Sandbox>, place: Place) -> Self {
        Self {
            sandbox,
            used: AtomicBool::new(false),
            fetched: Mutex::default(),
            _place: place,
        }
    }

    /// Notes that something is about to change inside; whether nothing had run in it before.
    pub(super) fn use_for_run(&self) -> bool {
        self.changed();
        !self.used.swap(true, Ordering::Relaxed)
    }

    /// Forgets the copies: the files may differ from now on.
    pub(super) fn changed(&self) {
        self.fetched().clear();
    }

    /// The copy of a file that has not changed since.
    pub(super) fn copy_of(&self, path: &WorkspacePath) -> Option<Entry> {
        self.fetched().get(path).cloned()
    }

    /// Remembers a copy.
    pub(super) fn remember(&self, path: WorkspacePath, copy: Entry) {
        let mut fetched = self.fetched();
        if fetched.len() >= MAX_REMEMBERED {
            fetched.clear();
        }
        fetched.insert(path, copy);
    }

    fn fetched(&self) -> MutexGuard<'_, HashMap<WorkspacePath, Entry>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
