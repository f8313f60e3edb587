//! A connection whose client must take what it asked for.
//!
//! It must never cut off a client that has nothing to take.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::unread::Unread;

/// How long a client may take nothing of what waits for it. Stops connections that ask and do not read from keeping
/// their answers, which may be megabytes, and their places.
pub(super) const UNREAD_DEADLINE: Duration = Duration::from_mins(1);
/// The same while answers to others wait for it. Stops a crowd that does not read from holding up those who do.
const PRESSED_DEADLINE: Duration = Duration::from_secs(5);

/// A stream that fails when its other end takes nothing for [`UNREAD_DEADLINE`], or [`PRESSED_DEADLINE`].
pub(super) struct Patient<S> {
    stream: S,
    unread: Unread,
    /// Since when it has taken nothing, and when to look at that again.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, unread: Unread) -> Self {
        Self {
            stream,
            unread,
            stalled: None,
        }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        step: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if step.is_ready() {
            self.stalled = None;
            return step;
        }
        let (since, look) = self
            .stalled
            .get_or_insert_with(|| (Instant::now(), Box::pin(sleep(PRESSED_DEADLINE))));
        loop {
            ready!(look.as_mut().poll(context));
            if self.unread.is_full() || since.elapsed() >= UNREAD_DEADLINE {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client does not read its answer",
                )));
            }
            look.as_mut().reset(Instant::now() + PRESSED_DEADLINE);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, step)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(context, step)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, step)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_served_and_who_does_not_read_is_cut_off() {
        let (mut ours, theirs) = tokio::io::duplex(1);
        let mut patient = Patient::new(theirs, Unread::default());
        let writing = tokio::spawn(async move { patient.write_all(b"abcd").await });
        for _ in 0..3 {
            tokio::time::sleep(UNREAD_DEADLINE * 3 / 4).await;
            ours.read_u8().await.unwrap();
        }
        writing.await.unwrap().unwrap();
        let (_ours, theirs) = tokio::io::duplex(1);
        let mut patient = Patient::new(theirs, Unread::default());
        let error = patient.write_all(b"abcd").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn while_others_wait_who_does_not_read_is_cut_off_sooner() {
        let unread = Unread::full();
        let (_ours, theirs) = tokio::io::duplex(1);
        let began = Instant::now();
        let mut patient = Patient::new(theirs, unread);
        patient.write_all(b"abcd").await.unwrap_err();
        assert!(began.elapsed() < UNREAD_DEADLINE / 2);
    }
}
