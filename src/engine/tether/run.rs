//! Running a program over the tether.
//!
//! The guest's account of a run is taken only in the order that the protocol allows, and nothing
//! after its end. Output is handed on as it comes: whoever calls [`Run::next`] must do so without
//! pause, or the program stalls.

use std::pin::Pin;

use belljar_wire::frame::{Frame, FrameWriter, Kind};
use belljar_wire::message::{
    Entry, EntryKind, Exit, FromRun, Request, RunId, RunSpec, StdinKind, ToRun,
};
use belljar_wire::mux;
use bytes::Bytes;
use futures_util::io::WriteHalf;
use tokio::time::timeout;

use super::{Exchange, Link, STALL_DEADLINE, Tether, TetherError, Violation, check, received};

impl Tether {
    /// Runs a program. The tether numbers the run itself and derives [`RunSpec::stdin`] from
    /// `stdin`; both fields of `spec` are ignored.
    ///
    /// # Errors
    /// [`TetherError::TooLarge`], [`TetherError::TooManyRequests`] or [`TetherError::Lost`]. That
    /// the program could not be started is told by [`Run::next`].
    pub async fn run(&self, mut spec: RunSpec, stdin: Option<Bytes>) -> Result<Run, TetherError> {
        let id = self.next_run();
        let files_left = spec.collect.max_files;
        let may_be_warm = spec.warm.is_some();
        spec.id = id;
        spec.stdin = if stdin.is_some() {
            StdinKind::Stream
        } else {
            StdinKind::Null
        };
        let exchange = self
            .link
            .ask(&Request::Run(spec))
            .await
            .map_err(|e| self.link.judge(e))?;
        let Exchange {
            reader,
            writer,
            link,
        } = exchange;
        let feed: Feed = Box::pin(feed(writer, stdin));
        Ok(Run {
            id,
            reader,
            feed: Some(feed),
            phase: Phase::Starting,
            files_left,
            may_be_warm,
            link,
        })
    }
}

type Reader = belljar_wire::frame::FrameReader<futures_util::io::ReadHalf<mux::Stream>>;
type Writer = FrameWriter<WriteHalf<mux::Stream>>;
type Feed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A program that was asked for. Dropping it kills the program.
pub struct Run {
    id: RunId,
    reader: Reader,
    /// Writes standard input while events are waited for; gone once the run is over.
    feed: Option<Feed>,
    phase: Phase,
    files_left: u32,
    may_be_warm: bool,
    link: Link,
}

/// Where in the order of [`FromRun`] a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    Collecting,
    Ended,
    Closed,
}

/// What happens in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// The program runs.
    Started {
        /// Whether an interpreter that waited runs it, as the guest says.
        warm: bool,
    },
    /// It wrote this to standard output; at most 64 KiB, never empty.
    Stdout(Bytes),
    /// It wrote this to standard error; at most 64 KiB, never empty.
    Stderr(Bytes),
    /// It left this regular file, new or changed.
    NewFile(Entry),
    /// It is over.
    Exited(Exit),
}

/// Kills a run from elsewhere.
#[derive(Clone, Debug)]
pub struct Killer {
    id: RunId,
    link: Link,
}

impl Killer {
    /// Asks the guest to kill the run; what it wrote until then, and its end, still arrive at its
    /// [`Run`]. Does nothing if it is over. A guest may ignore this: whoever must be sure kills the
    /// container.
    ///
    /// # Errors
    /// [`TetherError::Lost`] or [`TetherError::TooManyRequests`].
    pub async fn kill(&self) -> Result<(), TetherError> {
        let mut exchange = self.link.ask(&Request::Kill(self.id)).await?;
        exchange.end().await.map_err(|error| self.link.judge(error))
    }
}

impl Run {
    /// A handle that kills this run.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer {
            id: self.id,
            link: self.link.clone(),
        }
    }

    /// The next event; `None` after [`RunEvent::Exited`]. Standard input is written meanwhile. Loses
    /// nothing when cancelled.
    ///
    /// # Errors
    /// [`TetherError::Guest`] in place of [`RunEvent::Started`] if the program could not be started,
    /// [`TetherError::Violation`] and [`TetherError::Lost`] any time.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, TetherError> {
        match self.advance().await {
            Ok(event) => Ok(event),
            Err(error) => {
                self.phase = Phase::Closed;
                self.feed = None;
                Err(self.link.judge(error))
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<RunEvent>, TetherError> {
        loop {
            match self.phase {
                Phase::Closed => return Ok(None),
                Phase::Ended => {
                    // The guest closes the stream right after its last word.
                    let rest = timeout(STALL_DEADLINE, self.reader.next()).await;
                    let rest = rest.map_err(|_| Violation::Stalled)?.map_err(received)?;
                    if rest.is_some() {
                        return Err(Violation::Order.into());
                    }
                    self.phase = Phase::Closed;
                    return Ok(None);
                }
                Phase::Starting | Phase::Running | Phase::Collecting => {}
            }
            let frame = match &mut self.feed {
                Some(feed) => tokio::select! {
                    frame = self.reader.next() => frame,
                    () = feed => {
                        self.feed = None;
                        continue;
                    }
                },
                None => self.reader.next().await,
            };
            let frame = frame.map_err(received)?.ok_or(TetherError::Lost)?;
            return self.accept(frame).map(Some);
        }
    }

    fn accept(&mut self, frame: Frame) -> Result<RunEvent, TetherError> {
        match frame.kind {
            Kind::Stdout => self.output(frame.payload).map(RunEvent::Stdout),
            Kind::Stderr => self.output(frame.payload).map(RunEvent::Stderr),
            Kind::Data => Err(Violation::Order.into()),
            Kind::Control => self.message(frame.message().map_err(received)?),
        }
    }

    fn output(&self, payload: Vec<u8>) -> Result<Bytes, TetherError> {
        // Empty frames would let a guest keep the reader busy without ever reaching a limit.
        if self.phase != Phase::Running || payload.is_empty() {
            return Err(Violation::Order.into());
        }
        Ok(payload.into())
    }

    fn message(&mut self, message: FromRun) -> Result<RunEvent, TetherError> {
        match (message, self.phase) {
            (FromRun::Started { warm }, Phase::Starting) => {
                // What was asked to be new is not said to be old.
                if warm && !self.may_be_warm {
                    return Err(Violation::Order.into());
                }
                self.phase = Phase::Running;
                Ok(RunEvent::Started { warm })
            }
            (FromRun::Failed(error), Phase::Starting) => Err(error.into()),
            (FromRun::NewFile(entry), Phase::Running | Phase::Collecting) => {
                self.phase = Phase::Collecting;
                self.files_left = self.files_left.checked_sub(1).ok_or(Violation::Count)?;
                if entry.kind != EntryKind::File {
                    return Err(Violation::Order.into());
                }
                Ok(RunEvent::NewFile(check::entry(entry)?))
            }
            (FromRun::Exited(exit), Phase::Running | Phase::Collecting) => {
                self.phase = Phase::Ended;
                self.feed = None;
                Ok(RunEvent::Exited(exit))
            }
            (
                FromRun::Started { .. }
                | FromRun::Failed(_)
                | FromRun::NewFile(_)
                | FromRun::Exited(_),
                _,
            ) => Err(Violation::Order.into()),
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Run")
            .field("id", &self.id)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

/// Writes standard input. A program need not read it: an error only means that nobody will.
async fn feed(mut writer: Writer, stdin: Option<Bytes>) {
    if let Some(bytes) = stdin
        && writer.send_bytes(Kind::Data, &bytes).await.is_ok()
    {
        let _ = writer.send(&ToRun::StdinEnd).await;
    }
}
