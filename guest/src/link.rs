//! The connection to the server: one task per stream, a watchdog, and the end.
//!
//! The guest never outlives the connection: it ends when the stream does, when no hello came within
//! [`HELLO_DEADLINE`] and when no ping came within [`PING_DEADLINE`].

use std::io;
use std::rc::Rc;
use std::time::Duration;

use belljar_wire::PROTOCOL;
use belljar_wire::frame::{FrameError, FrameReader, FrameWriter, Kind};
use belljar_wire::limits::{MAX_REPLY, MAX_REQUEST};
use belljar_wire::message::{
    Entry, FromHello, FromList, GuestError, Hello, ListDir, ReadEnd, ReadFile, Ready, Request,
    ToHello, WriteFile,
};
use belljar_wire::mux::{self, Side};
use futures_util::io::AsyncReadExt as _;
use tokio::io::BufReader;
use tokio::net::unix::pipe;
use tokio::time::timeout;
use tokio_util::compat::TokioAsyncReadCompatExt as _;
use tokio_util::sync::CancellationToken;

use crate::beneath::Root;
use crate::egress::Egress;
use crate::files::Files;
use crate::init::Stdio;
use crate::pump::Writer;
use crate::run::{Reader, Runner};
use crate::stub::Parent;
use crate::walk::{Filter, Walk};

/// How long to wait for the server's hello. A container that was started but never attached to gets
/// no end of its input either.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// How long to wait for the next ping. A server whose host vanished closes nothing.
const PING_DEADLINE: Duration = Duration::from_secs(30);

/// What one read from the tether may bring.
const READ_BUFFER: usize = 64 * 1024;

#[derive(Debug)]
struct Guest {
    files: Files,
    runner: Runner,
    egress: Egress,
    greeted: CancellationToken,
    stop: CancellationToken,
}

/// Serves the server until the connection ends. Programs are children of `parent`.
pub(crate) async fn serve(stdio: Stdio, workspace: Root, parent: Parent) -> io::Result<()> {
    let read = pipe::Receiver::from_owned_fd(stdio.read)?;
    let write = pipe::Sender::from_owned_fd(stdio.write)?;
    let io = tokio::io::join(BufReader::with_capacity(READ_BUFFER, read), write);
    let (opener, gate, driver) = mux::connect(io.compat(), Side::Guest);
    let mut incoming = gate
        .open()
        .ok_or_else(|| io::Error::other("the gate of a new connection is open"))?;
    let guest = Rc::new(Guest {
        files: Files::new(workspace),
        runner: Runner::new(parent),
        egress: Egress::new(opener),
        greeted: CancellationToken::new(),
        stop: CancellationToken::new(),
    });
    let reaping = Rc::clone(&guest);
    tokio::task::spawn_local(async move { reaping.runner.reaper.work().await });
    let accepting = Rc::clone(&guest);
    tokio::task::spawn_local(async move {
        while let Some(stream) = incoming.next().await {
            let guest = Rc::clone(&accepting);
            // A stream that fails is the server's to notice: it sees its end.
            tokio::task::spawn_local(async move { guest.stream(stream).await });
        }
    });
    tokio::select! {
        _ = driver => {}
        () = guest.stop.cancelled() => {}
        () = guest.ungreeted() => {}
    }
    Ok(())
}

impl Guest {
    /// Resolves if the hello does not come in time.
    async fn ungreeted(&self) {
        if timeout(HELLO_DEADLINE, self.greeted.cancelled())
            .await
            .is_ok()
        {
            std::future::pending::<()>().await;
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
            Request::Hello(hello) => self.hello(hello, reader, writer).await,
            Request::Run(spec) => self.runner.run(&self.files, spec, reader, writer).await,
            Request::Warm(spec) => self.runner.warm(&spec, reader, writer).await,
            Request::Kill(id) => {
                self.runner.kill(id);
                writer.close().await
            }
            Request::Write(request) => self.write(request, reader, writer).await,
            Request::Read(request) => self.read(request, writer).await,
            Request::List(request) => self.list(request, writer).await,
            Request::Egress(spec) => self.egress.serve(spec, reader, writer).await,
        }
    }

    async fn hello(
        &self,
        hello: Hello,
        mut reader: Reader,
        mut writer: Writer,
    ) -> Result<(), FrameError> {
        // Answered also when the versions differ: the server then knows what is wrong.
        let ready = Ready {
            protocol: PROTOCOL,
            uid: nix::unistd::getuid().as_raw(),
        };
        writer.send(&FromHello::Ready(ready)).await?;
        if hello.protocol == PROTOCOL {
            self.greeted.cancel();
        }
        // Whatever ends this, silence or nonsense, ends the guest.
        let _stop = self.stop.clone().drop_guard();
        while let Ok(Ok(Some(frame))) = timeout(PING_DEADLINE, reader.next()).await {
            let ToHello::Ping(number) = frame.message()?;
            writer.send(&FromHello::Pong(number)).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        request: WriteFile,
        mut reader: Reader,
        mut writer: Writer,
    ) -> Result<(), FrameError> {
        let answer = self.receive(&request, &mut reader).await?;
        writer.send(&answer).await?;
        writer.close().await
    }

    /// Takes in a file. An answer in the middle tells the server to stop sending.
    async fn receive(
        &self,
        request: &WriteFile,
        reader: &mut Reader,
    ) -> Result<Result<Entry, GuestError>, FrameError> {
        let mut pending = match self.files.create(&request.path) {
            Ok(pending) => pending,
            Err(error) => return Ok(Err(error)),
        };
        let mut left = request.size;
        while left > 0 {
            let frame = reader.next().await?.ok_or(FrameError::Truncated)?;
            let count = u64::try_from(frame.payload.len()).unwrap_or(u64::MAX);
            if frame.kind != Kind::Data || count > left {
                return Ok(Err(GuestError::Malformed));
            }
            left -= count;
            if let Err(error) = pending.append(&frame.payload) {
                return Ok(Err(error));
            }
        }
        Ok(pending.finish())
    }

    async fn read(&self, request: ReadFile, mut writer: Writer) -> Result<(), FrameError> {
        let opened = match self.files.open(&request.path) {
            Ok(opened) => opened,
            Err(error) => {
                writer.send(&Err::<Entry, GuestError>(error)).await?;
                return writer.close().await;
            }
        };
        writer
            .send(&Ok::<Entry, GuestError>(opened.entry.clone()))
            .await?;
        let mut offset = request.offset;
        let mut left = request.length;
        let end = loop {
            let space = writer.space();
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(space.len());
            let count = match opened.read(&mut space[..most], offset) {
                Ok(0) => break ReadEnd::Complete,
                Ok(count) => count,
                Err(error) => break ReadEnd::Broken(error),
            };
            writer.send_space(Kind::Data, count).await?;
            let sent = u64::try_from(count).unwrap_or(left);
            left = left.saturating_sub(sent);
            offset = offset.saturating_add(sent);
        };
        writer.send(&end).await?;
        writer.close().await
    }

    async fn list(&self, request: ListDir, mut writer: Writer) -> Result<(), FrameError> {
        let filter = Filter {
            hidden: request.hidden,
            skip_dirs: Vec::new(),
        };
        let directory = self.files.root().directory(&request.path);
        let walk = directory.and_then(|directory| Walk::new(directory, &request.path, filter));
        let mut walk = match walk {
            Ok(walk) => walk,
            Err(error) => {
                writer.send(&FromList::Failed(error)).await?;
                return writer.close().await;
            }
        };
        let mut left = request.max_entries;
        let mut omitted = 0_u64;
        while let Some(found) = walk.next().await {
            if left == 0 {
                omitted = omitted.saturating_add(1);
                continue;
            }
            left -= 1;
            writer.send(&FromList::Entry(found.entry)).await?;
        }
        let omitted = omitted.saturating_add(walk.omitted());
        writer.send(&FromList::End { omitted }).await?;
        writer.close().await
    }
}
