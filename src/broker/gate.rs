//! How many sandboxes there are at a time, and how many calls may wait for a place.
//!
//! The daemon's latency grows faster than its load, and every waiting call holds its arguments in memory: past
//! the queue a call is refused at once, with words that say so, rather than left to hang.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Refusal;

/// The places for sandboxes.
#[derive(Debug)]
pub(super) struct Gate {
    places: Arc<Semaphore>,
    all: usize,
    waiting: AtomicUsize,
    queue: usize,
}

/// A place, held until it is dropped.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Gate {
    /// `places` sandboxes at a time, and `queue` calls that wait.
    pub(super) fn new(places: u32, queue: u32) -> Self {
        let all = usize::try_from(places)
            .unwrap_or(Semaphore::MAX_PERMITS)
            .min(Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(all)),
            all,
            waiting: AtomicUsize::new(0),
            queue: usize::try_from(queue).unwrap_or(usize::MAX),
        }
    }

    /// Waits for a place, in order, unless too many wait already.
    pub(super) async fn enter(&self, cancelled: &CancellationToken) -> Result<Place, Refusal> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place(permit));
        }
        let _waits = self.wait()?;
        tokio::select! {
            permit = Arc::clone(&self.places).acquire_owned() => {
                permit.map(Place).map_err(|_| Refusal::closing())
            }
            () = cancelled.cancelled() => Err(Refusal::cancelled()),
        }
    }

    /// Lets nobody in any more.
    pub(super) fn close(&self) {
        self.places.close();
    }

    fn wait(&self) -> Result<Waits<'_>, Refusal> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waits(&self.waiting);
        if before < self.queue {
            return Ok(waits);
        }
        Err(Refusal::new(
            "overload",
            format!(
                "all {} places for sandboxes are taken and {} calls wait already: try again later, run fewer at once, \
                 or close sessions that are no longer needed",
                self.all, self.queue
            ),
        ))
    }
}

/// One waiting call.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_place_is_waited_for_and_past_the_queue_a_call_is_refused() {
        let gate = Gate::new(1, 1);
        let cancelled = CancellationToken::new();
        let first = gate.enter(&cancelled).now_or_never().unwrap().unwrap();
        let mut second = Box::pin(gate.enter(&cancelled));
        assert!(second.as_mut().now_or_never().is_none(), "waits");
        let third = gate.enter(&cancelled).now_or_never().unwrap().unwrap_err();
        assert_eq!(third.reason(), "overload");
        drop(first);
        assert!(second.as_mut().now_or_never().unwrap().is_ok());
        drop(second);
        assert!(
            gate.enter(&cancelled).now_or_never().unwrap().is_ok(),
            "the place came back"
        );
    }

    #[test]
    fn one_that_gives_up_leaves_the_queue() {
        let gate = Gate::new(1, 1);
        let cancelled = CancellationToken::new();
        let _first = gate.enter(&cancelled).now_or_never().unwrap().unwrap();
        let mut second = Box::pin(gate.enter(&cancelled));
        assert!(second.as_mut().now_or_never().is_none());
        cancelled.cancel();
        assert_eq!(
            second
                .as_mut()
                .now_or_never()
                .unwrap()
                .unwrap_err()
                .reason(),
            "cancelled"
        );
        let other = CancellationToken::new();
        assert!(
            gate.enter(&other).now_or_never().is_none(),
            "the queue has room again"
        );
        gate.close();
        assert_eq!(
            gate.enter(&other)
                .now_or_never()
                .unwrap()
                .unwrap_err()
                .reason(),
            "closing"
        );
    }
}
