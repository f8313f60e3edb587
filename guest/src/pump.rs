//! Carrying a program's output to the server as fast as both allow.
//!
//! What the program wrote before its end arrives, also when it was killed; nothing here waits for a
//! writer that is already dead.

use std::io::ErrorKind;
use std::os::fd::AsFd as _;

use belljar_wire::frame::{FrameError, FrameWriter, Kind};
use belljar_wire::mux;
use futures_util::io::WriteHalf;
use nix::errno::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio_util::sync::CancellationToken;

/// The guest's half of a stream.
pub(crate) type Writer = FrameWriter<WriteHalf<mux::Stream>>;

/// Carries both pipes until they end, or until `dead` says that nobody can write to them any more
/// and they are empty.
pub(crate) async fn pump(
    stdout: &Receiver,
    stderr: &Receiver,
    writer: &mut Writer,
    dead: &CancellationToken,
) -> Result<(), FrameError> {
    let (mut out_open, mut err_open) = (true, true);
    while out_open || err_open {
        let (pipe, kind, open) = tokio::select! {
            _ = stdout.readable(), if out_open => (stdout, Kind::Stdout, &mut out_open),
            _ = stderr.readable(), if err_open => (stderr, Kind::Stderr, &mut err_open),
            () = dead.cancelled() => {
                drain(stdout, Kind::Stdout, writer).await?;
                return drain(stderr, Kind::Stderr, writer).await;
            }
        };
        *open = carry(pipe, kind, writer).await? == Pipe::Open;
    }
    Ok(())
}

/// Carries what is in a pipe. Its writers are dead, so that this ends. It asks the kernel each time:
/// the runtime's own idea of what is readable may be older than the program's last words.
async fn drain(pipe: &Receiver, kind: Kind, writer: &mut Writer) -> Result<(), FrameError> {
    loop {
        match nix::unistd::read(pipe.as_fd(), writer.space()) {
            Ok(0) => return Ok(()),
            Ok(count) => writer.send_space(kind, count).await?,
            Err(Errno::EINTR) => {}
            Err(_) => return Ok(()),
        }
    }
}

/// What is known of a pipe after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pipe {
    Open,
    Ended,
}

/// Sends what is in the pipe now, as one frame if it fits: programs that print in small pieces would else cost a
/// frame, and every stage after it, for each.
async fn carry(pipe: &Receiver, kind: Kind, writer: &mut Writer) -> Result<Pipe, FrameError> {
    let space = writer.space();
    let mut count = 0;
    let state = loop {
        if count == space.len() {
            break Pipe::Open;
        }
        match pipe.try_read(&mut space[count..]) {
            Ok(0) => break Pipe::Ended,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break Pipe::Open,
            Err(_) => break Pipe::Ended,
        }
    };
    if count > 0 {
        writer.send_space(kind, count).await?;
    }
    Ok(state)
}
