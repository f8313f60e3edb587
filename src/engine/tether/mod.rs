//! The server's end of the one stream to a sandbox.
//!
//! It runs programs and moves files by asking the guest. It must never trust what comes back: every
//! frame, count, size, name and the order of them is checked, and whatever breaks a rule ends the
//! connection with a [`Violation`]. It knows nothing of Docker: the caller hands it a byte stream.
//!
//! # Theory of operation
//! [`Tether::connect`] starts two tasks: one moves the multiplexer, one says hello and then pings.
//! Both end with the [`Tether`], and the end of either, a panic included, is the end of the
//! connection: every stream sees its end and [`Tether::lost`] resolves. Each request opens a stream
//! of its own; dropping what a request returned (a [`Run`], a [`FileStream`]) resets that stream,
//! which ends the work inside. While there is a [`Door`], the guest opens streams too, one for each
//! connection of a program's.

mod check;
mod egress;
mod files;
mod hello;
mod run;
#[cfg(test)]
mod tests;
mod warm;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar_wire::frame::{Frame, FrameError, FrameReader, FrameWriter};
use belljar_wire::limits::{MAX_REPLY, MAX_REQUEST};
use belljar_wire::message::{GuestError, Ready, Request, RunId};
use belljar_wire::mux::{self, Gate, MuxError, Opener, Side};
use futures_util::io::{AsyncReadExt as _, ReadHalf, WriteHalf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::compat::TokioAsyncReadCompatExt as _;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use belljar_wire::message;
pub use belljar_wire::message::FromWarm;
pub use egress::{Connection, Door};
pub use files::{FileStream, Listing};
pub use run::{Killer, Run, RunEvent};
pub use warm::WARM_DEADLINE;

/// How long the guest may take from the start of the connection to its answer. Stops a container
/// that hangs before its guest runs, or a hostile image, from holding a caller for ever.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// How long the guest may leave a request for a file without a sign of life. Stops a guest that
/// answers pings but nothing else.
pub const STALL_DEADLINE: Duration = Duration::from_secs(30);

/// A connection to a guest.
#[derive(Debug)]
pub struct Tether {
    link: Link,
    /// Lets the guest's streams in, while there is a [`Door`].
    gate: Gate,
    ready: Ready,
    runs: AtomicU64,
    probes: mpsc::Sender<hello::Probe>,
    /// When the guest answered last.
    answered: watch::Receiver<Instant>,
    _ends_with_this: DropGuard,
}

/// Why a request to a sandbox failed.
#[derive(Debug, thiserror::Error)]
pub enum TetherError {
    /// No answer to the hello within [`HELLO_DEADLINE`].
    #[error("the sandbox did not answer in time")]
    HelloTimeout,
    /// The connection ended.
    #[error("the connection to the sandbox was lost")]
    Lost,
    /// The guest broke the protocol: the sandbox is to be killed.
    #[error("the sandbox broke the protocol")]
    Violation(#[from] Violation),
    /// The guest could not do it. A claim of the sandbox's, but harmless.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The request exceeds [`MAX_REQUEST`].
    #[error("the request is too large for the sandbox")]
    TooLarge,
    /// More requests at once than the connection carries.
    #[error("too many requests at once to one sandbox")]
    TooManyRequests,
    /// The bytes to be written into the sandbox could not be read, or were fewer than announced.
    #[error("read what was to be written into the sandbox")]
    Source(#[source] std::io::Error),
}

/// How a guest broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A frame that is too large, of no known kind, cut short or not the expected message.
    #[error("malformed frame")]
    Frame,
    /// A message that has no place here: too early, twice, or after the end.
    #[error("message out of order")]
    Order,
    /// More bytes, files or entries than were asked for.
    #[error("more than was asked for")]
    Count,
    /// A path that leaves the workspace or breaks the bounds.
    #[error("malformed path")]
    Path,
    /// No sign of life within [`STALL_DEADLINE`], or no answer to a ping.
    #[error("no answer in time")]
    Stalled,
    /// Another version of the protocol: not the guest that belongs to this server.
    #[error("another version of the guest")]
    Protocol,
}

impl Tether {
    /// Connects over the two directions of a byte stream to a guest, and waits for its answer.
    ///
    /// # Errors
    /// [`TetherError::HelloTimeout`], [`TetherError::Lost`] or [`TetherError::Violation`].
    pub async fn connect(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Self, TetherError> {
        let io = tokio::io::join(read, write).compat();
        let (opener, gate, driver) = mux::connect(io, Side::Server);
        let ended = CancellationToken::new();
        let ends_with_this = ended.clone().drop_guard();
        let stop = ended.clone();
        let guard = ended.clone().drop_guard();
        tokio::spawn(async move {
            // Ends the connection however this task ends, also by a panic in the multiplexer.
            let _guard = guard;
            tokio::select! {
                () = stop.cancelled() => {}
                result = driver => tracing::debug!(?result, "connection to a sandbox ended"),
            }
        });
        let link = Link { opener, ended };
        let greeting = hello::greet(&link);
        let (ready, hello) = tokio::time::timeout(HELLO_DEADLINE, greeting)
            .await
            .map_err(|_| TetherError::HelloTimeout)??;
        let (probes, asked) = mpsc::channel(1);
        let (now, answered) = watch::channel(Instant::now());
        tokio::spawn(hello::keep_alive(hello, asked, now));
        Ok(Self {
            link,
            gate,
            ready,
            runs: AtomicU64::new(1),
            probes,
            answered,
            _ends_with_this: ends_with_this,
        })
    }

    /// What the guest said of itself.
    #[must_use]
    pub fn ready(&self) -> Ready {
        self.ready
    }

    /// Resolves when the connection has ended, for whatever reason.
    pub async fn lost(&self) {
        self.link.ended.cancelled().await;
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.link.ended.is_cancelled()
    }

    /// Whether the guest answers now, within `limit`. Nothing else makes sure: a container that is paused, or a daemon
    /// that hangs, closes no connection.
    pub async fn answers(&self, limit: Duration) -> bool {
        let (probe, answered) = oneshot::channel();
        let asked = async { self.probes.send(probe).await.is_ok() && answered.await.is_ok() };
        tokio::time::timeout(limit, asked).await.unwrap_or(false)
    }

    /// How long ago the guest last answered the hello or a ping.
    #[must_use]
    pub fn answered_ago(&self) -> Duration {
        self.answered.borrow().elapsed()
    }

    fn next_run(&self) -> RunId {
        RunId(self.runs.fetch_add(1, Ordering::Relaxed))
    }
}

/// What every request needs of the connection.
#[derive(Clone, Debug)]
struct Link {
    opener: Opener,
    /// Cancelled once the connection has ended; cancelling it ends the connection.
    ended: CancellationToken,
}

impl Link {
    /// Opens a stream and sends the request.
    async fn ask(&self, request: &Request) -> Result<Exchange, TetherError> {
        let stream = self.opener.open().await.map_err(|error| match error {
            MuxError::TooManyStreams => TetherError::TooManyRequests,
            MuxError::Closed | MuxError::UnexpectedStream | MuxError::Broken(_) => {
                TetherError::Lost
            }
        })?;
        let (read, write) = stream.split();
        let mut exchange = Exchange {
            reader: FrameReader::new(read, MAX_REPLY),
            writer: FrameWriter::new(write, MAX_REQUEST),
            link: self.clone(),
        };
        exchange.send(request).await?;
        Ok(exchange)
    }

    /// Ends the connection if the error says that the guest cannot be trusted with another request.
    fn judge(&self, error: TetherError) -> TetherError {
        match &error {
            TetherError::Lost | TetherError::Violation(_) | TetherError::HelloTimeout => {
                self.ended.cancel();
            }
            TetherError::Guest(_)
            | TetherError::TooLarge
            | TetherError::TooManyRequests
            | TetherError::Source(_) => {}
        }
        error
    }
}

/// One request's stream.
#[derive(Debug)]
struct Exchange {
    reader: FrameReader<ReadHalf<mux::Stream>>,
    writer: FrameWriter<WriteHalf<mux::Stream>>,
    link: Link,
}

impl Exchange {
    async fn send<T: serde::Serialize>(&mut self, message: &T) -> Result<(), TetherError> {
        self.writer.send(message).await.map_err(sent)
    }

    /// The next frame, which must come. Loses nothing when cancelled.
    async fn frame(&mut self) -> Result<Frame, TetherError> {
        self.reader
            .next()
            .await
            .map_err(received)?
            .ok_or(TetherError::Lost)
    }

    /// The next frame, which must come within [`STALL_DEADLINE`].
    async fn prompt_frame(&mut self) -> Result<Frame, TetherError> {
        in_time(self.frame()).await
    }

    /// The end of the stream, which must come next: frames after the end are a violation.
    async fn end(&mut self) -> Result<(), TetherError> {
        match in_time(async { self.reader.next().await.map_err(received) }).await? {
            None => Ok(()),
            Some(_) => Err(Violation::Order.into()),
        }
    }
}

async fn in_time<T>(
    answer: impl Future<Output = Result<T, TetherError>>,
) -> Result<T, TetherError> {
    tokio::time::timeout(STALL_DEADLINE, answer)
        .await
        .map_err(|_| Violation::Stalled)?
}

/// What a failed send means. Only the connection's end makes a stream unwritable.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` takes"
)]
fn sent(error: FrameError) -> TetherError {
    match error {
        FrameError::TooLarge { .. } => TetherError::TooLarge,
        FrameError::Io(_) | FrameError::Kind | FrameError::Truncated | FrameError::Message => {
            TetherError::Lost
        }
    }
}

/// What a failed receive means. A stream that ends inside a frame ended for the same reasons as one
/// that ends between two: the guest is gone or has given up on it.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` takes"
)]
fn received(error: FrameError) -> TetherError {
    match error {
        FrameError::Io(_) | FrameError::Truncated => TetherError::Lost,
        FrameError::TooLarge { .. } | FrameError::Kind | FrameError::Message => {
            Violation::Frame.into()
        }
    }
}
