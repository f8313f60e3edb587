//! The multiplexer over the one byte stream of a tether: yamux, with bounds.
//!
//! [`connect`] gives an [`Opener`], a [`Gate`] for the streams of the other side and a [`Driver`], a
//! future that must be polled for anything to move and whose end is the end of every stream. Nothing
//! here spawns a task, so that the guest can run it without a thread and the server can tie it to a
//! connection's life. A stream that the other side opens where none may be ends the connection.

mod backlog;
mod gate;
mod sieve;
mod tunnel;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_channel::{mpsc, oneshot};
use futures_util::StreamExt as _;
use futures_util::io::{AsyncRead, AsyncWrite, BufWriter};
use yamux::{Connection, ConnectionError, Mode};

use crate::limits::{MAX_DATA, MAX_OPEN, MAX_STREAMS, MAX_TUNNELS, MAX_WINDOWS};

use backlog::{Backlogs, Reader};
use gate::Admission;
pub use gate::{Gate, Incoming};
use sieve::Sieve;
pub use tunnel::Tunnel;

/// One frame of ours and its header go out as one frame of the multiplexer.
const SPLIT: usize = MAX_DATA + 16;
/// Holds one such frame with the multiplexer's header, so that it becomes one system call.
const WRITE_BUFFER: usize = SPLIT + 64;

/// Streams that have ended here and that the multiplexer has not forgotten yet, because their last
/// frames wait to be sent. Stops a connection from being given up where streams follow one another
/// quickly.
const MAX_LINGERING: usize = 16;
/// What the multiplexer may know of at a time.
const MAX_KNOWN: usize = MAX_STREAMS + MAX_LINGERING;
/// What the windows of busy streams may grow by, all together.
const GROWTH: usize = 8 * 1024 * 1024;

// Without room beyond what each stream is owed, no window ever grows.
const _: () = assert!(MAX_WINDOWS >= MAX_KNOWN * yamux::DEFAULT_CREDIT as usize + GROWTH);

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// belljar's server: opens a stream for each request.
    Server,
    /// The guest in the container: opens a stream for each connection that it carries.
    Guest,
}

impl Side {
    /// The most streams that this side opens at a time.
    fn most_opened(self) -> usize {
        match self {
            Self::Server => MAX_OPEN,
            Self::Guest => MAX_TUNNELS,
        }
    }

    /// The most streams of the other side that may be alive here. The guest trusts the server, and
    /// has a stream for a moment longer than the server has; what the multiplexer bears is enough.
    fn most_admitted(self) -> usize {
        match self {
            Self::Server => MAX_TUNNELS,
            Self::Guest => MAX_KNOWN,
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum MuxError {
    /// The other side closed it, or it is closed already.
    #[error("connection closed")]
    Closed,
    /// More streams at once than the side that opens them may have: [`MAX_OPEN`] or [`MAX_TUNNELS`].
    #[error("too many streams at once")]
    TooManyStreams,
    /// The other side opened a stream where it may not.
    #[error("a stream was opened where none may be")]
    UnexpectedStream,
    /// What arrived is not the protocol, or the byte stream failed.
    #[error("connection broken")]
    Broken(#[source] ConnectionError),
}

/// One stream of the connection. Dropped before both sides closed it, it is reset.
#[derive(Debug)]
pub struct Stream {
    inner: yamux::Stream,
    /// Told of what was read. After the stream itself: what comes when that is gone is for nobody.
    backlog: Reader,
    /// Counts towards the bound of its kind while the stream lives.
    _permit: Arc<()>,
}

impl Stream {
    /// The stream for plain bytes.
    #[must_use]
    pub fn into_tunnel(self) -> Tunnel {
        Tunnel::new(self)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.backlog.took(count);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(context)
    }
}

type OpenReply = oneshot::Sender<Result<Stream, MuxError>>;

/// Opens streams.
#[derive(Clone, Debug)]
pub struct Opener {
    requests: mpsc::UnboundedSender<OpenReply>,
}

impl Opener {
    /// Opens a stream.
    ///
    /// # Errors
    /// [`MuxError::TooManyStreams`], or [`MuxError::Closed`] once the driver has ended.
    pub async fn open(&self) -> Result<Stream, MuxError> {
        let (reply, answer) = oneshot::channel();
        self.requests
            .unbounded_send(reply)
            .map_err(|_| MuxError::Closed)?;
        answer.await.map_err(|_| MuxError::Closed)?
    }
}

/// Moves the connection. Its result says how it ended.
#[must_use = "nothing moves unless the driver is polled"]
#[derive(Debug)]
pub struct Driver<T> {
    connection: Connection<Sieve<BufWriter<T>>>,
    backlogs: Backlogs,
    side: Side,
    requests: mpsc::UnboundedReceiver<OpenReply>,
    waiting: Option<OpenReply>,
    admission: Admission,
    permits: Arc<()>,
}

/// Starts the multiplexer on a byte stream. The streams in flight are bounded by
/// [`MAX_STREAMS`], the memory by [`MAX_WINDOWS`] and [`crate::limits::MAX_UNREAD`]. Small reads of `io` must be cheap, since the
/// multiplexer reads each of its headers alone: whoever made `io` knows whether it needs a buffer.
pub fn connect<T>(io: T, side: Side) -> (Opener, Gate, Driver<T>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut config = yamux::Config::default();
    config.set_max_num_streams(MAX_KNOWN);
    config.set_max_connection_receive_window(Some(MAX_WINDOWS));
    config.set_split_send_size(SPLIT);
    let mode = match side {
        Side::Server => Mode::Client,
        Side::Guest => Mode::Server,
    };
    let backlogs = Backlogs::default();
    let sieve = Sieve::new(BufWriter::with_capacity(WRITE_BUFFER, io), backlogs.clone());
    let (open, requests) = mpsc::unbounded();
    let admission = Admission::default();
    let gate = admission.gate();
    let driver = Driver {
        connection: Connection::new(sieve, config, mode),
        backlogs,
        side,
        requests,
        waiting: None,
        admission,
        permits: Arc::new(()),
    };
    (Opener { requests: open }, gate, driver)
}

impl<T: AsyncRead + AsyncWrite + Unpin> Driver<T> {
    fn poll_open(&mut self, context: &mut Context<'_>) -> Result<(), MuxError> {
        loop {
            let reply = match self.waiting.take() {
                Some(reply) => reply,
                None => match self.requests.poll_next_unpin(context) {
                    Poll::Ready(Some(reply)) => reply,
                    Poll::Ready(None) | Poll::Pending => return Ok(()),
                },
            };
            if reply.is_canceled() {
                continue;
            }
            if Arc::strong_count(&self.permits) > self.side.most_opened() {
                let _ = reply.send(Err(MuxError::TooManyStreams));
                continue;
            }
            match self.connection.poll_new_outbound(context) {
                Poll::Ready(Ok(inner)) => {
                    let stream = Stream {
                        backlog: self.backlogs.reader(inner.id().val()),
                        inner,
                        _permit: Arc::clone(&self.permits),
                    };
                    let _ = reply.send(Ok(stream));
                }
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => {
                    self.waiting = Some(reply);
                    return Ok(());
                }
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Future for Driver<T> {
    type Output = Result<(), MuxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            self.poll_open(context)?;
            match self.connection.poll_next_inbound(context) {
                Poll::Ready(Some(Ok(inner))) => {
                    let backlog = self.backlogs.reader(inner.id().val());
                    let most = self.side.most_admitted();
                    self.admission.admit(inner, backlog, most)?;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl From<ConnectionError> for MuxError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Closed => Self::Closed,
            ConnectionError::TooManyStreams => Self::TooManyStreams,
            other => Self::Broken(other),
        }
    }
}

#[cfg(test)]
mod tests;
