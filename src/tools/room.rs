//! Places for large answers, of which there are few at a time.
//!
//! A piece of a file or a whole resource can be tens of megabytes as text, and so is its answer until the client has
//! read it. An answer must never be begun before there is a place for it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Large answers at a time. Stops a client that asks for all its files at once from filling the memory with them.
const MAX_LARGE_ANSWERS: usize = 2;

/// The places.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LARGE_ANSWERS)))
    }
}

impl Places {
    /// Waits for a place.
    pub(super) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

/// Where a transport that can tell when an answer was read has the place of it kept until then. It travels with the
/// request.
#[derive(Clone, Debug, Default)]
pub struct Room(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Room {
    /// Keeps a place.
    pub(super) fn keep(&self, place: Option<OwnedSemaphorePermit>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Hands out what is kept.
    #[must_use]
    pub fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
