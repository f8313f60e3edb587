//! The body of a request on its way out: its bytes as they come, and nothing but bytes.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, sleep_until};

/// The body of a request. Trailers do not pass: they would be headers that nobody checked.
#[derive(Debug)]
pub(in crate::egress) struct RequestBody {
    inner: Incoming,
    progress: Arc<Progress>,
}

/// When a piece of a body last went out.
#[derive(Debug)]
pub(super) struct Progress(Mutex<Instant>);

impl RequestBody {
    pub(in crate::egress) fn new(inner: Incoming) -> Self {
        Self {
            inner,
            progress: Arc::new(Progress(Mutex::new(Instant::now()))),
        }
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
            let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            self.progress.touch();
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Err(_trailers)) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
