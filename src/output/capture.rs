//! Takes both output streams of a run at wire speed and keeps all of them, in bounded memory.
//!
//! # Theory of operation
//! Bytes are counted and windowed as they arrive, and gathered in memory. Once a stream has gathered
//! [`SPILL_CHUNK_BYTES`], a blocking task hashes them and appends them to a file in the spool directory,
//! while the next ones gather; a caller waits only where the disk is slower than the stream. A stream
//! that stays small never touches the disk.
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
        self.stdout.window.bytes() + self.stderr.window.bytes()
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
    window: Window,
    gathered: Vec<u8>,
    sink: SinkState,
}

/// Who has the sink. It is never held by a future, so that none can take it away when dropped.
#[derive(Debug)]
enum SinkState {
    Here(Sink),
    Writing(JoinHandle<Sink>),
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

    async fn push(&mut self, chunk: &[u8]) {
        self.window.push(chunk);
        self.gathered.extend_from_slice(chunk);
        if self.gathered.len() >= SPILL_CHUNK_BYTES {
            self.spill().await;
        }
    }

    async fn spill(&mut self) {
        if let SinkState::Writing(task) = &mut self.sink {
            self.sink = task.await.map_or(SinkState::Gone, SinkState::Here);
        }
        let chunk = std::mem::take(&mut self.gathered);
        self.sink = match std::mem::replace(&mut self.sink, SinkState::Gone) {
            SinkState::Here(mut sink) => {
                SinkState::Writing(tokio::task::spawn_blocking(move || {
                    sink.append(&chunk);
                    sink
                }))
            }
            other @ (SinkState::Writing(_) | SinkState::Gone) => other,
        };
    }

    async fn finish(self) -> CapturedStream {
        let sink = match self.sink {
            SinkState::Here(sink) => Some(sink),
            SinkState::Writing(task) => task.await.ok(),
            SinkState::Gone => None,
        };
        let rest = self.gathered;
        let end = match sink {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NO_LIMIT: u64 = u64::MAX;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    fn raw(stream: &CapturedStream) -> Vec<u8> {
        match &stream.raw {
            RawContent::Memory(bytes) => bytes.to_vec(),
            RawContent::File(file) => std::fs::read(file.path()).unwrap(),
            RawContent::Incomplete => panic!("the raw copy is incomplete"),
        }
    }

    #[test]
    fn a_small_stream_stays_in_memory_and_a_large_one_goes_to_a_private_file() {
        let spool = tempfile::tempdir().unwrap();
        let large: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let captured = block_on(async {
            let mut capture = Capture::new(NO_LIMIT, spool.path());
            for chunk in large.chunks(65_536) {
                assert_eq!(capture.push(Stream::Stdout, chunk).await, Verdict::Continue);
            }
            assert_eq!(
                capture.push(Stream::Stderr, b"small").await,
                Verdict::Continue
            );
            capture.finish().await
        });
        assert!(raw(&captured.stdout) == large);
        assert_eq!(captured.stdout.sha256, Sha256::of(&large));
        assert_eq!(captured.stdout.window.bytes(), 3_000_000);
        assert!(matches!(&captured.stderr.raw, RawContent::Memory(bytes) if bytes == "small"));
        assert_eq!(captured.stderr.sha256, Sha256::of(b"small"));
        #[cfg(unix)]
        if let RawContent::File(file) = &captured.stdout.raw {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(
                file.as_file().metadata().unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        drop(captured);
        assert_eq!(
            std::fs::read_dir(spool.path()).unwrap().count(),
            0,
            "spool files go when dropped"
        );
    }

    #[test]
    fn the_limit_counts_both_streams_and_nothing_beyond_it_is_kept() {
        let spool = tempfile::tempdir().unwrap();
        let captured = block_on(async {
            let mut capture = Capture::new(10, spool.path());
            assert_eq!(
                capture.push(Stream::Stdout, b"12345").await,
                Verdict::Continue
            );
            // Exactly the limit is within it.
            assert_eq!(
                capture.push(Stream::Stderr, b"67890").await,
                Verdict::Continue
            );
            assert_eq!(capture.push(Stream::Stderr, b"").await, Verdict::Continue);
            assert_eq!(
                capture.push(Stream::Stdout, b"x").await,
                Verdict::LimitReached
            );
            assert_eq!(
                capture.push(Stream::Stderr, b"").await,
                Verdict::LimitReached
            );
            assert_eq!(capture.bytes(), 10);
            capture.finish().await
        });
        assert_eq!(raw(&captured.stdout), b"12345");
        assert_eq!(raw(&captured.stderr), b"67890");
    }

    #[test]
    fn a_chunk_across_the_limit_is_kept_up_to_it() {
        let captured = block_on(async {
            let mut capture = Capture::new(7, Path::new("/nowhere"));
            assert_eq!(
                capture.push(Stream::Stdout, b"0123456789").await,
                Verdict::LimitReached
            );
            capture.finish().await
        });
        assert_eq!(raw(&captured.stdout), b"0123456");
        assert_eq!(captured.stdout.sha256, Sha256::of(b"0123456"));
    }

    #[test]
    fn without_a_spool_directory_window_counts_and_digest_survive() {
        let bytes = vec![b'x'; SPILL_CHUNK_BYTES * 3];
        let captured = block_on(async {
            let mut capture = Capture::new(NO_LIMIT, Path::new("/nowhere/at/all"));
            for chunk in bytes.chunks(50_000) {
                assert_eq!(capture.push(Stream::Stdout, chunk).await, Verdict::Continue);
            }
            capture.finish().await
        });
        assert!(matches!(captured.stdout.raw, RawContent::Incomplete));
        assert_eq!(captured.stdout.window.bytes(), bytes.len() as u64);
        assert_eq!(captured.stdout.sha256, Sha256::of(&bytes));
    }

    #[test]
    fn a_write_that_fails_half_way_removes_the_file() {
        let spool = tempfile::tempdir().unwrap();
        let mut sink = Sink::new(spool.path().to_owned());
        sink.append(b"first");
        // A file opened for reading refuses writes, as a full disk does.
        let SpoolFile::Open(file) = std::mem::replace(&mut sink.file, SpoolFile::Failed) else {
            panic!("no file");
        };
        let path = file.into_temp_path();
        let readonly = std::fs::File::open(&path).unwrap();
        sink.file = SpoolFile::Open(NamedTempFile::from_parts(readonly, path));
        sink.append(b"second");
        let (sha256, raw) = sink.finish(b"third".to_vec());
        assert!(matches!(raw, RawContent::Incomplete));
        assert_eq!(sha256, Sha256::of(b"firstsecondthird"));
        assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_dropped_push_loses_no_bytes() {
        let spool = tempfile::tempdir().unwrap();
        let chunk = vec![b'x'; SPILL_CHUNK_BYTES];
        let captured = block_on(async {
            let mut capture = Capture::new(NO_LIMIT, spool.path());
            for _ in 0..5 {
                // Polled once and dropped, wherever it waits.
                let push = std::pin::pin!(capture.push(Stream::Stdout, &chunk));
                let _ = futures_util::FutureExt::now_or_never(push);
            }
            capture.finish().await
        });
        assert_eq!(captured.stdout.window.bytes(), 5 * SPILL_CHUNK_BYTES as u64);
        assert_eq!(raw(&captured.stdout).len(), 5 * SPILL_CHUNK_BYTES);
        assert_eq!(captured.stdout.sha256, Sha256::of(&chunk.repeat(5)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_chunking_of_both_streams_gives_the_same(
            pushes in prop::collection::vec((any::<bool>(), 0usize..200_000), 0..16),
            limit in 0u64..2_000_000,
        ) {
            let spool = tempfile::tempdir().unwrap();
            let (mut out, mut err, mut over) = (Vec::new(), Vec::new(), false);
            let captured = block_on(async {
                let mut capture = Capture::new(limit, spool.path());
                for (to_out, len) in pushes {
                    let chunk: Vec<u8> = (0..len).map(|i| (i % 253) as u8).collect();
                    let (stream, expected) =
                        if to_out { (Stream::Stdout, &mut out) } else { (Stream::Stderr, &mut err) };
                    let verdict = capture.push(stream, &chunk).await;
                    expected.extend(chunk);
                    over |= (out.len() + err.len()) as u64 > limit;
                    if over {
                        let beyond = (out.len() + err.len()) as u64 - limit;
                        let cut = if to_out { &mut out } else { &mut err };
                        cut.truncate(cut.len() - usize::try_from(beyond).unwrap());
                    }
                    assert_eq!(verdict == Verdict::LimitReached, over);
                }
                capture.finish().await
            });
            for (stream, expected) in [(&captured.stdout, &out), (&captured.stderr, &err)] {
                prop_assert!(&raw(stream) == expected);
                prop_assert_eq!(stream.sha256, Sha256::of(expected));
                prop_assert_eq!(stream.window.bytes(), expected.len() as u64);
            }
        }
    }
}
