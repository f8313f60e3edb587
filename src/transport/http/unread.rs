//! Large answers that lie in memory until their clients have taken them: so many bytes at a time, of all connections
//! together.
//!
//! What it must never do is to hold up a small answer: whoever reads is served, whatever others do not read.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Body, vetted::Held};
use crate::{tools::Room, types::KIB};

/// What may lie unread, in KiB: about what the largest resource is as text. Stops clients that ask and do not read from
/// filling the memory with their answers.
const MAX_UNREAD_KIB: u32 = 32 * 1024;
/// Smaller pieces are not counted: all connections together have no more of them than half of that.
const LEAST_COUNTED_KIB: u64 = 64;

/// The bytes that lie unread.
#[derive(Clone, Debug)]
pub(super) struct Unread {
    free: Arc<Semaphore>,
    /// Answers that wait for others to be taken.
    waiting: Arc<AtomicUsize>,
}

impl Default for Unread {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(MAX_UNREAD_KIB as usize)),
            waiting: Arc::default(),
        }
    }
}

/// An answer that waits, as long as this lives.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Unread {
    /// Whether an answer waits for others to be taken.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// One in which an answer waits for ever.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        let unread = Self::default();
        unread.waiting.store(1, Ordering::Relaxed);
        unread
    }

    async fn take(self, kib: u32) -> Option<OwnedSemaphorePermit> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&self.waiting));
        // It is never closed.
        self.free.acquire_many_owned(kib).await.ok()
    }

    /// An answer that is handed on within the bound. The place that was kept in `room` for making it is free once a large
    /// piece of it counts here, or it has come to its end.
    /// What its request holds is let go of with the body.
    pub(super) fn bounded(&self, body: Body, held: Held, room: Room) -> Body {
        Body::new(Bounded {
            body,
            unread: self.clone(),
            _held: held,
            room,
            next: None,
        })
    }
}

/// See [`Unread::bounded`].
struct Bounded {
    body: Body,
    unread: Unread,
    _held: Held,
    room: Room,
    /// A piece that waits until there is room for it.
    next: Option<(Bytes, Turn)>,
}

type Turn = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send + Sync>>;

/// Bytes that count until the connection has let go of them.
struct Counted {
    bytes: Bytes,
    _counts: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.next.is_none() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end @ (None | Some(Err(_))) => return Poll::Ready(end),
            };
            let bytes = match frame.into_data() {
                Ok(bytes) => bytes,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            let kib = bytes.len() as u64 / KIB;
            if kib < LEAST_COUNTED_KIB {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            // One that is larger than all there is has all of it.
            let kib = u32::try_from(kib).map_or(MAX_UNREAD_KIB, |kib| kib.min(MAX_UNREAD_KIB));
            let turn: Turn = Box::pin(self.unread.clone().take(kib));
            self.next = Some((bytes, turn));
        }
        let Some((_, turn)) = &mut self.next else {
            return Poll::Ready(None);
        };
        let counts = ready!(turn.as_mut().poll(context));
        let bytes = self.next.take().map(|(bytes, _)| bytes);
        drop(self.room.take());
        Poll::Ready(bytes.map(|bytes| {
            Ok(Frame::data(Bytes::from_owner(Counted {
                bytes,
                _counts: counts,
            })))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Asked before the first piece is taken from it, and true until then.
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    fn of(unread: &Unread, bytes: usize) -> Body {
        let body = Full::from(vec![7; bytes]).boxed();
        unread.bounded(body, Held::default(), Room::default())
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_wait_for_those_that_are_not_taken_and_small_ones_do_not() {
        let unread = Unread::default();
        let most = MAX_UNREAD_KIB as usize * 1024;
        let first = of(&unread, most / 2).frame().await;
        let second = of(&unread, most / 2).frame().await;
        assert!(!unread.is_full());
        let mut third = of(&unread, most * 2);
        assert_eq!(third.size_hint().exact(), Some(most as u64 * 2));
        let patience = std::time::Duration::from_secs(1000);
        let waits = tokio::time::timeout(patience, third.frame()).await;
        assert!(waits.is_err());
        assert!(unread.is_full());
        let small = of(&unread, 1000).collect().await.unwrap().to_bytes();
        assert_eq!(small.len(), 1000);
        // The connection lets go of the first two.
        drop((first, second));
        let bytes = third.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(bytes.len(), most * 2);
        assert!(!unread.is_full());
        assert!(third.frame().await.is_none());
        drop(bytes);
        assert_eq!(unread.free.available_permits(), MAX_UNREAD_KIB as usize);
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_any_more_takes_no_place() {
        let unread = Unread::default();
        let held = of(&unread, MAX_UNREAD_KIB as usize * 1024).frame().await;
        let mut left = of(&unread, 1_000_000);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut left).poll_frame(&mut context).is_pending());
        assert!(unread.is_full());
        drop(left);
        assert!(!unread.is_full());
        drop(held);
    }
}
