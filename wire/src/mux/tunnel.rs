//! A stream that carries the plain bytes of a connection.
//!
//! Frames tell an end from a cut; plain bytes cannot, so this does: it must never let a cut pass for
//! the end of what was sent, as far as the multiplexer tells.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};

use super::Stream;

/// Bytes both ways. Closing ends this direction only; dropped before both sides closed it, it is reset.
///
/// What was reset, or ended with the connection, fails to be read with
/// [`ErrorKind::ConnectionReset`]. After this side has closed its direction, the multiplexer cannot
/// tell the two any more, and a cut reads as an end: whoever half-closes has to see in the bytes
/// themselves whether they are complete, as HTTP and TLS do.
#[derive(Debug)]
pub struct Tunnel {
    stream: Stream,
    closed: bool,
}

impl Tunnel {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            closed: false,
        }
    }

    /// The stream's number, the same on both sides.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.stream.inner.id().val()
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        // The other side's close alone leaves the stream half open.
        if count == 0 && !buffer.is_empty() && !self.closed && self.stream.inner.is_closed() {
            return Poll::Ready(Err(Error::from(ErrorKind::ConnectionReset)));
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_close(context))?;
        self.closed = true;
        Poll::Ready(Ok(()))
    }
}
