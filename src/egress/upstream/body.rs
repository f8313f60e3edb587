//! The body of a request on its way out: its bytes as they come, and nothing but bytes.

use std::{
    error::Error as _,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, sleep_until};

/// The body of a request. Trailers do not pass: they would be headers that nobody checked.
#[derive(Debug)]
pub(in crate::egress) struct RequestBody {
    /// None: the request has no body.
    inner: Option<Incoming>,
    progress: Arc<Progress>,
    malformed: Malformed,
}

/// Whether a body turned out to be no right one, such as chunks that are none. Not known before it was read, and it is
/// the program's doing, whatever the server makes of a request that ends in the middle.
#[derive(Clone, Debug, Default)]
pub(in crate::egress) struct Malformed(Arc<AtomicBool>);

impl Malformed {
    pub(in crate::egress) fn is_seen(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A body that merely ends too early is not malformed: the program is gone.
    fn look_at(&self, error: &hyper::Error) {
        let cause = error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>());
        let malformed = cause.is_some_and(|cause| {
            matches!(
                cause.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
            )
        });
        if malformed {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// When a piece of a body last went out.
#[derive(Debug)]
pub(super) struct Progress(Mutex<Instant>);

impl RequestBody {
    pub(in crate::egress) fn new(inner: Incoming) -> Self {
        Self::of(Some(inner))
    }

    /// For a request of the server's own.
    pub(in crate::egress) fn empty() -> Self {
        Self::of(None)
    }

    fn of(inner: Option<Incoming>) -> Self {
        Self {
            inner,
            progress: Arc::new(Progress(Mutex::new(Instant::now()))),
            malformed: Malformed::default(),
        }
    }

    /// What will tell whether it was a right one.
    pub(in crate::egress) fn malformed(&self) -> Malformed {
        self.malformed.clone()
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl Progress {
    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Ends once nothing went out for so long.
    pub(super) async fn stalled_for(&self, patience: Duration) {
        loop {
            let deadline = self.last() + patience;
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            let Some(inner) = &mut self.inner else {
                return Poll::Ready(None);
            };
            let Some(frame) = ready!(Pin::new(inner).poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            self.progress.touch();
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Err(_trailers)) => {}
                Err(error) => {
                    self.malformed.look_at(&error);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(inner) => inner.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}
