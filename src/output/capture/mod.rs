//! Takes both output streams of a run at wire speed and keeps all of them, in bounded memory.
//!
//! # Theory of operation
//! Bytes are counted as they arrive, and gathered in memory. Once a stream has gathered
//! [`SPILL_CHUNK_BYTES`], they go through the window, and a blocking task hashes them and appends them to
//! a file in the spool directory, while the next ones gather in the buffer of those before; a caller waits
//! only where the disk is slower than the stream. A stream that stays small never touches the disk.
//!
//! A disk that is full must not cost the window, the counts or the run: the raw copy then ends early,
//! and says so. Nothing here may fail because of what the program prints.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256 as Hasher};
use tempfile::NamedTempFile;
use tokio::task::JoinHandle;

use super::window::Window;
use crate::types::Sha256;

/// Raw bytes of one stream gathered in memory before they go to the spool file. At most twice as many are
/// held at a time, beside the window: a run costs less than 3 MiB of memory, whatever it prints.
pub const SPILL_CHUNK_BYTES: usize = 512 * 1024;

/// The most that is hashed at the end of a stream without a thread of its own, in bytes: about a tenth of a
/// millisecond. Stops a caller's output from holding up the others.
const INLINE_BYTES: usize = 64 * 1024;

/// Which of a program's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whether the run may go on printing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a run that is over its limit has to be ended"]
pub enum Verdict {
    /// All bytes were taken.
    Continue,
    /// The limit is exceeded; what is beyond it was neither kept nor counted.
    LimitReached,
}

/// The capture of one run.
#[derive(Debug)]
pub struct Capture {
    stdout: Channel,
    stderr: Channel,
    /// Bytes that both streams together may still take.
    room: u64,
    exceeded: bool,
}

/// What was captured of a run.
#[derive(Debug)]
pub struct Captured {
    /// Standard output.
    pub stdout: CapturedStream,
    /// Standard error.
    pub stderr: CapturedStream,
}

/// One stream, whole.
#[derive(Debug)]
pub struct CapturedStream {
    /// Head, tail and the exact count.
    pub window: Window,
    /// The digest of the whole stream, also where the raw copy is not whole.
    pub sha256: Sha256,
    /// The raw copy.
    pub raw: RawContent,
}

/// Where the raw copy of a stream is.
#[derive(Debug)]
pub enum RawContent {
    /// A whole stream that is small.
    Memory(Bytes),
    /// A whole stream in a file that is removed unless it is moved away.
    File(NamedTempFile),
    /// Only the window is left: the spool directory could not take the rest.
    Incomplete,
}

impl Capture {
    /// Captures up to `limit` bytes of both streams together, with spool files in `spool`, a directory
    /// that only this user can read.
    #[must_use]
    pub fn new(limit: u64, spool: &Path) -> Self {
        Self {
            stdout: Channel::new(spool),
            stderr: Channel::new(spool),
            room: limit,
            exceeded: false,
        }
    }

    /// Takes the next bytes of a stream.
    ///
    /// Dropping the future loses nothing: the bytes are taken before it first waits.
    pub async fn push(&mut self, stream: Stream, chunk: &[u8]) -> Verdict {
        let fits = usize::try_from(self.room).map_or(chunk.len(), |room| room.min(chunk.len()));
        self.exceeded |= fits < chunk.len();
        self.room -= fits as u64;
        let channel = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        channel.push(&chunk[..fits]).await;
        if self.exceeded {
            Verdict::LimitReached
        } else {
            Verdict::Continue
        }
    }

    /// Bytes taken so far, both streams together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stdout.bytes() + self.stderr.bytes()
    }

    /// Ends the capture, once nothing more comes.
    pub async fn finish(self) -> Captured {
        let (stdout, stderr) = tokio::join!(self.stdout.finish(), self.stderr.finish());
        Captured { stdout, stderr }
    }
}

/// One stream on its way.
#[derive(Debug)]
struct Channel {
    /// Of what was spilled.
    window: Window,
    gathered: Vec<u8>,
    sink: SinkState,
}

/// Who has the sink. It is never held by a future, so that none can take it away when dropped.
#[derive(Debug)]
enum SinkState {
    Here(Sink),
    /// Comes back with the emptied buffer.
    Writing(JoinHandle<(Sink, Vec<u8>)>),
    /// The writing task panicked, and the digest with it.
    Gone,
}

impl Channel {
    fn new(spool: &Path) -> Self {
        Self {
            window: Window::default(),
            gathered: Vec::new(),
            sink: SinkState::Here(Sink::new(spool.to_owned())),
        }
    }

    fn bytes(&self) -> u64 {
        self.window.bytes() + self.gathered.len() as u64
    }

    async fn push(&mut self, chunk: &[u8]) {
        self.gathered.extend_from_slice(chunk);
        if self.gathered.len() >= SPILL_CHUNK_BYTES {
            self.spill().await;
        }
    }

    async fn spill(&mut self) {
        let mut empty = Vec::new();
        if let SinkState::Writing(task) = &mut self.sink {
            self.sink = match task.await {
                Ok((sink, buffer)) => {
                    empty = buffer;
                    SinkState::Here(sink)
                }
                Err(_panicked) => SinkState::Gone,
            };
        }
        let mut chunk = std::mem::replace(&mut self.gathered, empty);
        // Once for many pieces: what the window keeps of each is moved about for nothing.
        self.window.push(&chunk);
        self.sink = match std::mem::replace(&mut self.sink, SinkState::Gone) {
            SinkState::Here(mut sink) => {
                SinkState::Writing(tokio::task::spawn_blocking(move || {
                    sink.append(&chunk);
                    chunk.clear();
                    (sink, chunk)
                }))
            }
            other @ (SinkState::Writing(_) | SinkState::Gone) => other,
        };
    }

    async fn finish(mut self) -> CapturedStream {
        let sink = match self.sink {
            SinkState::Here(sink) => Some(sink),
            SinkState::Writing(task) => task.await.ok().map(|(sink, _)| sink),
            SinkState::Gone => None,
        };
        let rest = self.gathered;
        self.window.push(&rest);
        let end = match sink {
            // Nothing but a short digest is left to do: another thread would take longer to wake.
            Some(sink) if sink.is_unused() && rest.len() <= INLINE_BYTES => Some(sink.finish(rest)),
            Some(sink) => tokio::task::spawn_blocking(move || sink.finish(rest))
                .await
                .ok(),
            None => None,
        };
        // Only a panic of our own in the task loses these two; the window survives even that.
        let (sha256, raw) = end.unwrap_or((Sha256::ZERO, RawContent::Incomplete));
        CapturedStream {
            window: self.window,
            sha256,
            raw,
        }
    }
}

/// Hashes a stream and keeps its raw copy. Blocks.
#[derive(Debug)]
struct Sink {
    hasher: Hasher,
    spool: PathBuf,
    file: SpoolFile,
}

#[derive(Debug)]
enum SpoolFile {
    /// Nothing was spilled yet.
    None,
    Open(NamedTempFile),
    /// The file could not be made or written: it is removed at once, since the disk may be full.
    Failed,
}

impl Sink {
    fn new(spool: PathBuf) -> Self {
        Self {
            hasher: Hasher::new(),
            spool,
            file: SpoolFile::None,
        }
    }

    fn is_unused(&self) -> bool {
        matches!(self.file, SpoolFile::None)
    }

    fn append(&mut self, chunk: &[u8]) {
        self.hasher.update(chunk);
        if let SpoolFile::None = self.file {
            self.file = match NamedTempFile::new_in(&self.spool) {
                Ok(file) => SpoolFile::Open(file),
                Err(error) => Self::failed(&error),
            };
        }
        if let SpoolFile::Open(file) = &mut self.file
            && let Err(error) = file.write_all(chunk)
        {
            self.file = Self::failed(&error);
        }
    }

    fn failed(error: &io::Error) -> SpoolFile {
        tracing::warn!(%error, "the raw output cannot be kept whole");
        SpoolFile::Failed
    }

    fn finish(mut self, rest: Vec<u8>) -> (Sha256, RawContent) {
        let raw = match self.file {
            SpoolFile::None => {
                self.hasher.update(&rest);
                RawContent::Memory(rest.into())
            }
            SpoolFile::Open(_) | SpoolFile::Failed => {
                self.append(&rest);
                match self.file {
                    SpoolFile::Open(file) => RawContent::File(file),
                    SpoolFile::None | SpoolFile::Failed => RawContent::Incomplete,
                }
            }
        };
        (Sha256::from_bytes(self.hasher.finalize().into()), raw)
    }
}

#[cfg(test)]
mod tests;
