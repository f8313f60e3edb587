//! Places for large answers, of which there are few at a time.
//!
//! A piece of a file or a whole resource can be tens of megabytes as text, and so is its answer until the client has
//! read it. An answer must never be begun before there is a place for it.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::http::request::Parts;
use rmcp::model::Extensions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::broker::Refusal;

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
    /// Waits for a place, which is kept in `room`. Refuses where the request is taken back meanwhile: a crowd that waits and
    /// hangs up must not have its answers made all at once, for nobody.
    pub(super) async fn take(
        &self,
        room: &Room,
        cancelled: &CancellationToken,
    ) -> Result<(), Refusal> {
        let place = tokio::select! {
            // It is never closed.
            place = Arc::clone(&self.0).acquire_owned() => place.ok(),
            () = cancelled.cancelled() => return Err(Refusal::cancelled()),
        };
        room.keep(place);
        Ok(())
    }
}

/// Where the place of an answer is kept, until the last handle is dropped. A transport sends one with the request and keeps
/// it until the answer was read; without one it goes with the handler.
#[derive(Clone, Debug, Default)]
pub struct Room(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Room {
    /// That of a request, which over HTTP is with its head.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let of_head = || extensions.get::<Parts>()?.extensions.get::<Self>();
        let room = extensions.get::<Self>().or_else(of_head);
        room.cloned().unwrap_or_default()
    }

    fn keep(&self, place: Option<OwnedSemaphorePermit>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Hands out what is kept.
    #[must_use]
    pub fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn who_is_taken_back_while_it_waits_gets_no_place_and_is_refused() {
        let places = Places::default();
        let going_on = CancellationToken::new();
        let rooms: Vec<Room> = (0..MAX_LARGE_ANSWERS).map(|_| Room::default()).collect();
        for room in &rooms {
            places.take(room, &going_on).await.unwrap();
        }
        let (late, taken_back) = (Room::default(), CancellationToken::new());
        let mut waiting = Box::pin(places.take(&late, &taken_back));
        assert!(waiting.as_mut().now_or_never().is_none(), "all are taken");
        taken_back.cancel();
        assert!(waiting.await.is_err());
        assert!(late.take().is_none());
        drop(rooms);
        let next = Room::default();
        places.take(&next, &going_on).await.unwrap();
        assert!(next.take().is_some());
    }
}
