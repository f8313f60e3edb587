//! A guest in memory, for tests of everything above the tether without Docker.
//!
//! It speaks the protocol over an in-memory stream, keeps a workspace in a map, and takes the text
//! of a "program" for a script of its own (see [`script`]), in which it can also be told to lie. Some
//! paths make it lie as well: writing `lie/early`, `lie/stall` or `lie/path`, reading `lie/more` (once
//! it is there), listing `lie`; `lie/drip` moves little by little whichever way, and `slow` comes out in ten pieces; and so do commands of an interpreter that is to wait (see `warm`) and certificates to trust (see
//! `egress`). It must never be part of a sandbox: it runs nothing and isolates nothing.

mod egress;
mod run;
pub mod script;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use belljar_wire::PROTOCOL;
use belljar_wire::frame::{FrameError, FrameReader, FrameWriter, Kind};
use belljar_wire::limits::{MAX_REPLY, MAX_REQUEST};
use belljar_wire::message::{
    Entry, EntryKind, FromHello, FromList, FromWarm, GuestError, Hidden, ListDir, ReadEnd,
    ReadFile, Ready, Request, RunId, ToHello, WarmSpec, WriteFile,
};
use belljar_wire::mux::{self, Opener, Side};
use futures_util::io::{AsyncReadExt as _, ReadHalf, WriteHalf};
use tokio::io::DuplexStream;
use tokio_util::compat::TokioAsyncReadCompatExt as _;
use tokio_util::sync::CancellationToken;

use egress::Egress;

/// Bytes in flight in the stream in memory: about what a pipe holds.
const PIPE: usize = 64 * 1024;
/// The uid that it claims to run as.
pub const UID: u32 = 52_000;
/// How long it takes for each piece of a file that drips.
const DRIP: Duration = Duration::from_secs(20);
/// The modification time of every file.
const MODIFIED_MS: i64 = 1_700_000_000_000;

type Reader = FrameReader<ReadHalf<mux::Stream>>;
type Writer = FrameWriter<WriteHalf<mux::Stream>>;

/// The files in the guest's workspace, by relative path. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Workspace(Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl Workspace {
    /// The content of a file.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.with(|files| files.get(path.as_bytes()).cloned())
    }

    /// Puts a file there.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        self.with(|files| files.insert(path.as_bytes().to_vec(), bytes.to_vec()));
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<Vec<u8>, Vec<u8>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How the guest answers the hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greeting {
    /// As it should.
    #[default]
    Proper,
    /// Not at all.
    Silent,
    /// With another version of the protocol.
    OtherProtocol,
    /// As it should, but pings are not answered.
    NoPongs,
    /// As it should, and that is the last that is heard: no program starts, and no ping is answered.
    LastWords,
    /// By opening a stream of its own.
    OpensStream,
}

/// A guest that has been started. It ends with its stream.
#[derive(Debug)]
pub struct ScriptedGuest {
    /// The server's end of the stream: what an attach to a container would give.
    pub io: DuplexStream,
    /// Its files.
    pub workspace: Workspace,
}

impl ScriptedGuest {
    /// Starts a guest in a task of the current runtime.
    #[must_use]
    pub fn start(greeting: Greeting) -> Self {
        Self::start_as(UID, greeting)
    }

    /// The same, with another uid.
    #[must_use]
    pub fn start_as(uid: u32, greeting: Greeting) -> Self {
        let (io, far) = tokio::io::duplex(PIPE);
        let workspace = Workspace::default();
        tokio::spawn(serve(far, uid, greeting, workspace.clone()));
        Self { io, workspace }
    }
}

#[derive(Clone, Debug)]
struct Guest {
    uid: u32,
    greeting: Greeting,
    workspace: Workspace,
    current: Arc<Mutex<Option<(RunId, CancellationToken)>>>,
    vanish: CancellationToken,
    full: Arc<AtomicBool>,
    /// Whether an interpreter waits for the next run.
    waiting: Arc<AtomicBool>,
    /// Whether it says so of every run.
    always_warm: Arc<AtomicBool>,
    opener: Opener,
    egress: Egress,
}

async fn serve(io: DuplexStream, uid: u32, greeting: Greeting, workspace: Workspace) {
    let (opener, gate, driver) = mux::connect(io.compat(), Side::Guest);
    let Some(mut incoming) = gate.open() else {
        return;
    };
    let guest = Guest::new(uid, greeting, workspace, opener.clone());
    let vanish = guest.vanish.clone();
    if guest.greeting == Greeting::OpensStream {
        tokio::spawn(async move {
            if let Ok(stream) = opener.open().await {
                let (_read, write) = stream.split();
                let _ = FrameWriter::new(write, MAX_REPLY)
                    .send_bytes(Kind::Data, b"x")
                    .await;
            }
        });
    }
    tokio::spawn(async move {
        while let Some(stream) = incoming.next().await {
            let guest = guest.clone();
            tokio::spawn(async move { guest.stream(stream).await });
        }
    });
    tokio::select! {
        _ = driver => {}
        () = vanish.cancelled() => {}
    }
}

impl Guest {
    fn new(uid: u32, greeting: Greeting, workspace: Workspace, opener: Opener) -> Self {
        Self {
            uid,
            greeting,
            workspace,
            current: Arc::default(),
            vanish: CancellationToken::new(),
            full: Arc::default(),
            waiting: Arc::default(),
            always_warm: Arc::default(),
            opener,
            egress: Egress::default(),
        }
    }

    async fn stream(&self, stream: mux::Stream) -> Result<(), FrameError> {
        let (read, write) = stream.split();
        let mut reader = FrameReader::new(read, MAX_REQUEST);
        let mut writer = FrameWriter::new(write, MAX_REPLY);
        let Some(frame) = reader.next().await? else {
            return Ok(());
        };
        match frame.message()? {
            Request::Hello(_) => self.hello(reader, writer).await,
            Request::Run(_) if self.greeting == Greeting::LastWords => std::future::pending().await,
            Request::Run(spec) => self.run(spec, reader, writer).await,
            Request::Warm(spec) => self.warm(&spec, writer).await,
            Request::Kill(id) => {
                if let Some((current, kill)) = &*self.current()
                    && *current == id
                {
                    kill.cancel();
                }
                writer.close().await
            }
            Request::Write(request) => {
                let answer = self.write(request, &mut reader).await?;
                writer.send(&answer).await?;
                writer.close().await
            }
            Request::Read(request) => self.read(&request, writer).await,
            Request::List(request) => self.list(&request, writer).await,
            Request::Egress(spec) => self.open_egress(spec, reader, writer).await,
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<(RunId, CancellationToken)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn hello(&self, mut reader: Reader, mut writer: Writer) -> Result<(), FrameError> {
        let protocol = match self.greeting {
            Greeting::Silent | Greeting::OpensStream => return std::future::pending().await,
            Greeting::OtherProtocol => PROTOCOL + 1,
            Greeting::Proper | Greeting::NoPongs | Greeting::LastWords => PROTOCOL,
        };
        writer
            .send(&FromHello::Ready(Ready {
                protocol,
                uid: self.uid,
            }))
            .await?;
        while let Some(frame) = reader.next().await? {
            let ToHello::Ping(number) = frame.message()?;
            if !matches!(self.greeting, Greeting::NoPongs | Greeting::LastWords) {
                writer.send(&FromHello::Pong(number)).await?;
            }
        }
        Ok(())
    }

    /// The command's first word says what becomes of it.
    async fn warm(&self, spec: &WarmSpec, mut writer: Writer) -> Result<(), FrameError> {
        let answer = match spec.argv.first().map_or("", String::as_str) {
            "stall" => return std::future::pending().await,
            "fail" => FromWarm::Failed,
            "lie/twice" => {
                writer.send(&FromWarm::Ready).await?;
                FromWarm::Ready
            }
            "lie/bytes" => {
                writer.send_bytes(Kind::Data, b"ready").await?;
                return writer.close().await;
            }
            "lie/always" => {
                self.always_warm.store(true, Ordering::Relaxed);
                FromWarm::Ready
            }
            _ => FromWarm::Ready,
        };
        self.waiting
            .store(answer == FromWarm::Ready, Ordering::Relaxed);
        writer.send(&answer).await?;
        writer.close().await
    }

    async fn write(
        &self,
        request: WriteFile,
        reader: &mut Reader,
    ) -> Result<Result<Entry, GuestError>, FrameError> {
        match request.path.as_slice() {
            b"lie/early" => return Ok(Ok(entry(b"lie/early", b""))),
            b"lie/stall" => return std::future::pending().await,
            b"lie/path" => return Ok(Ok(entry(b"/etc/passwd", b""))),
            _ => {}
        }
        let mut bytes = Vec::new();
        while u64::try_from(bytes.len()).unwrap_or(u64::MAX) < request.size {
            if request.path == b"lie/drip" {
                tokio::time::sleep(DRIP).await;
            }
            let frame = reader.next().await?.ok_or(FrameError::Truncated)?;
            if frame.kind != Kind::Data {
                return Ok(Err(GuestError::Malformed));
            }
            bytes.extend_from_slice(&frame.payload);
        }
        if self.full.load(Ordering::Relaxed) {
            return Ok(Err(GuestError::NoSpace));
        }
        let entry = entry(&request.path, &bytes);
        self.workspace
            .with(|files| files.insert(request.path, bytes));
        Ok(Ok(entry))
    }

    async fn read(&self, request: &ReadFile, mut writer: Writer) -> Result<(), FrameError> {
        let Some(bytes) = self
            .workspace
            .with(|files| files.get(&request.path).cloned())
        else {
            writer.send(&Err::<Entry, _>(GuestError::NotFound)).await?;
            return writer.close().await;
        };
        writer
            .send(&Ok::<_, GuestError>(entry(&request.path, &bytes)))
            .await?;
        if request.path == b"lie/more" {
            let more = usize::try_from(request.length)
                .unwrap_or(0)
                .saturating_add(1);
            writer.send_bytes(Kind::Data, &vec![0; more]).await?;
            return std::future::pending().await;
        }
        let start = usize::try_from(request.offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let length = usize::try_from(request.length).unwrap_or(usize::MAX);
        let rest = &bytes[start..];
        let drip = match request.path.as_slice() {
            b"lie/drip" => Some(1),
            b"slow" => Some(rest.len() / 10),
            _ => None,
        };
        if let Some(size) = drip {
            for piece in rest.chunks(size) {
                tokio::time::sleep(DRIP).await;
                writer.send_bytes(Kind::Data, piece).await?;
            }
            writer.send(&ReadEnd::Complete).await?;
            return writer.close().await;
        }
        writer
            .send_bytes(Kind::Data, &rest[..length.min(rest.len())])
            .await?;
        writer.send(&ReadEnd::Complete).await?;
        writer.close().await
    }

    async fn list(&self, request: &ListDir, mut writer: Writer) -> Result<(), FrameError> {
        if request.path == b"lie" {
            loop {
                writer.send(&FromList::Entry(entry(b"again", b""))).await?;
            }
        }
        if request.path == b"lie/drip" {
            loop {
                tokio::time::sleep(DRIP).await;
                writer.send(&FromList::Entry(entry(b"drop", b""))).await?;
            }
        }
        let mut prefix = request.path.clone();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let entries: Vec<Entry> = self.workspace.with(|files| {
            let below = files.iter().filter(|(path, _)| path.starts_with(&prefix));
            let seen = below.filter(|(path, _)| request.hidden == Hidden::List || !is_hidden(path));
            seen.map(|(path, bytes)| entry(path, bytes)).collect()
        });
        if entries.is_empty() && !prefix.is_empty() {
            writer.send(&FromList::Failed(GuestError::NotFound)).await?;
            return writer.close().await;
        }
        let most = usize::try_from(request.max_entries).unwrap_or(usize::MAX);
        let omitted = u64::try_from(entries.len().saturating_sub(most)).unwrap_or(0);
        for entry in entries.into_iter().take(most) {
            writer.send(&FromList::Entry(entry)).await?;
        }
        writer.send(&FromList::End { omitted }).await?;
        writer.close().await
    }
}

fn entry(path: &[u8], bytes: &[u8]) -> Entry {
    Entry {
        path: path.to_vec(),
        kind: EntryKind::File,
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        modified_ms: MODIFIED_MS,
    }
}

fn is_hidden(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .any(|name| name.first() == Some(&b'.'))
}
