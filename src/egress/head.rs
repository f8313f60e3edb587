//! Heads of HTTP/1 requests from inside, vetted before a server of HTTP sees a byte of them.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::policy::EgressDenial;

/// The longest head, in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The most headers of one head.
pub(super) const MAX_HEADERS: usize = 100;

/// Lets through nothing but requests whose heads were vetted. After a refusal reads fail, and [`Verdict::refusal`] says
/// why; nothing of the refused head was let through.
#[derive(Debug)]
pub(super) struct Guard<T> {
    io: T,
    verdict: Verdict,
}

/// What became of the heads so far; to be kept while a server of HTTP has the guard.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict(Arc<State>);

#[derive(Debug, Default)]
struct State {
    refusal: OnceLock<EgressDenial>,
    must_close: AtomicBool,
}

impl Verdict {
    /// Why reads fail.
    pub(super) fn refusal(&self) -> Option<EgressDenial> {
        self.0.refusal.get().copied()
    }

    /// Whether the connection has to end with the answer to the request that is being read: what follows its body is
    /// not vetted.
    pub(super) fn must_close(&self) -> bool {
        self.0.must_close.load(Ordering::Acquire)
    }
}

impl<T> Guard<T> {
    pub(super) fn new(io: T) -> Self {
        Self {
            io,
            verdict: Verdict::default(),
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// The stream, to write an answer to a refused head.
    pub(super) fn into_inner(self) -> T {
        self.io
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
