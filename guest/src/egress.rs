//! The way out: a listener on loopback whose connections are carried to the server.
//!
//! It carries bytes and parses none of them: what they ask for is for the server to find out and to
//! decide. It must never listen on anything but 127.0.0.1, hold more connections than its bounds, or
//! leave one open when the server has closed the way out.
//!
//! # Theory of operation
//! The program's first byte makes a connection wait for one of [`MAX_TUNNELS`] places; then a stream is
//! opened for it. A place is had again when the connection is over here and the server has said that
//! it is over there. Who gets none in time, or finds too many waiting, is told so and closed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use belljar_wire::frame::{Frame, FrameError};
use belljar_wire::limits::MAX_TUNNELS;
use belljar_wire::message::{EGRESS_PORT, EgressSpec, FromEgress, GuestError, ToEgress};
use belljar_wire::mux::{Opener, Tunnel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy, copy_buf, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _};
use tokio_util::sync::CancellationToken;

use crate::pump::Writer;
use crate::run::Reader;
use crate::trust::TrustFile;

/// Connections that wait for a place. Stops a program that connects without end from taking the
/// guest's descriptors, of which it has 1024.
const MAX_WAITING: usize = 128;
/// Connections that are told that there are too many, and that get a moment to hear it. The same.
const MAX_PARTING: usize = 128;
/// How long a connection waits for a place. Less than what clients wait for an answer, so that they
/// hear why there is none.
const PLACE_DEADLINE: Duration = Duration::from_secs(10);
/// How long a connection that is turned away may take to hear it.
const PARTING_DEADLINE: Duration = Duration::from_secs(1);
/// How long to wait when the kernel has no memory for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// What one read of a connection brings at most, each way: one frame of the multiplexer.
const BUFFER: usize = belljar_wire::limits::MAX_DATA;

/// The answer to a connection that there is no place for. The guest does not read what it asks, and
/// a client that speaks SOCKS sees no more than that it was refused.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 belljar too_many_connections\r\n\
    content-type: application/json\r\n\
    content-length: 140\r\n\
    connection: close\r\n\
    \r\n\
    {\"error\":\"egress_failed\",\"reason\":\"too_many_connections\",\
    \"message\":\"too many connections at once: use fewer, or close those that are idle\"}\n";

/// Opens the way out, one at a time.
#[derive(Debug)]
pub(crate) struct Egress {
    opener: Opener,
    /// Held while it is open. The server's next request may overtake the end of the one before.
    turn: Mutex<()>,
}

impl Egress {
    pub(crate) fn new(opener: Opener) -> Self {
        Self {
            opener,
            turn: Mutex::new(()),
        }
    }

    /// Serves a request to open the way out, until the server closes it.
    pub(crate) async fn serve(
        &self,
        spec: EgressSpec,
        reader: Reader,
        mut writer: Writer,
    ) -> Result<(), FrameError> {
        let _turn = self.turn.lock().await;
        match open(&spec).await {
            Ok((listener, port, trust)) => {
                drop(spec);
                writer.send(&FromEgress::Open { port }).await?;
                self.carry(listener, reader).await;
                drop(trust);
            }
            Err(error) => writer.send(&FromEgress::Failed(error)).await?,
        }
        writer.close().await
    }

    /// Carries connections until the server's end of the request.
    async fn carry(&self, listener: TcpListener, mut reader: Reader) {
        let door = Rc::new(Door::new(self.opener.clone()));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                frame = reader.next() => match over(frame) {
                    Some(number) => door.over(number),
                    None => break,
                },
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => door.admit(socket, &mut connections),
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        door.cut.cancel();
        while connections.join_next().await.is_some() {}
    }
}

/// The number of a stream that is over, as the server says; `None` at the end of what it says.
fn over(frame: Result<Option<Frame>, FrameError>) -> Option<u32> {
    let ToEgress::Over(number) = frame.ok()??.message().ok()?;
    Some(number)
}

/// Writes the trust file and listens.
async fn open(spec: &EgressSpec) -> Result<(TcpListener, NonZeroU16, TrustFile), GuestError> {
    let trust = TrustFile::write(&spec.trust)?;
    let listener = match listen(EGRESS_PORT).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => listen(0).await,
        bound => bound,
    };
    let failed = |error: io::Error| GuestError::Io {
        errno: error.raw_os_error().unwrap_or(0),
    };
    let listener = listener.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let port = NonZeroU16::new(address.port()).ok_or(GuestError::Malformed)?;
    Ok((listener, port, trust))
}

async fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).await
}

/// The way out, while it is open.
#[derive(Debug)]
struct Door {
    opener: Opener,
    /// One for each connection that is carried.
    places: Arc<Semaphore>,
    /// One for each stream that the server has room for.
    granted: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    parting: Arc<Semaphore>,
    /// The streams that are open, and who is to hear that the server's end of it is over.
    streams: RefCell<HashMap<u32, CancellationToken>>,
    cut: CancellationToken,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Both sides have ended it, or it was never carried.
    Closed,
    /// One side died, or the way out was closed.
    Cut,
}

impl Door {
    fn new(opener: Opener) -> Self {
        Self {
            opener,
            places: Arc::new(Semaphore::new(MAX_TUNNELS)),
            granted: Arc::new(Semaphore::new(MAX_TUNNELS)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            parting: Arc::new(Semaphore::new(MAX_PARTING)),
            streams: RefCell::default(),
            cut: CancellationToken::new(),
        }
    }

    /// Notes that the server has let go of a stream.
    fn over(&self, number: u32) {
        self.granted.add_permits(1);
        if let Some(over) = self.streams.borrow().get(&number) {
            over.cancel();
        }
    }

    /// Takes a connection in, or turns it away.
    fn admit(self: &Rc<Self>, socket: TcpStream, connections: &mut JoinSet<()>) {
        if let Ok(waiting) = Arc::clone(&self.waiting).try_acquire_owned() {
            connections.spawn_local(Rc::clone(self).connection(socket, waiting));
        } else if let Ok(parting) = Arc::clone(&self.parting).try_acquire_owned() {
            let cut = self.cut.clone();
            connections.spawn_local(async move {
                cut.run_until_cancelled(turn_away(socket)).await;
                drop(parting);
            });
        } else if let Ok(mut socket) = socket.into_std() {
            // Whether it is heard is the program's own affair: it has hundreds of these.
            let _ = socket.write(TOO_MANY);
        }
    }

    /// One connection, from its acceptance to its end.
    async fn connection(self: Rc<Self>, mut socket: TcpStream, waiting: OwnedSemaphorePermit) {
        let _ = socket.set_nodelay(true);
        let place = async {
            // Only once it speaks: a stream that nothing was written to does not reach the server.
            let ready = async {
                socket.readable().await.ok()?;
                let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
                let granted = Arc::clone(&self.granted).acquire_owned().await.ok()?;
                Some((place, granted))
            };
            timeout(PLACE_DEADLINE, ready).await
        };
        let placed = match self.cut.run_until_cancelled(place).await {
            Some(Ok(Some(placed))) => placed,
            Some(Err(_)) => {
                self.cut.run_until_cancelled(turn_away(socket)).await;
                return;
            }
            Some(Ok(None)) | None => return reset(&socket),
        };
        drop(waiting);
        let (place, granted) = placed;
        let tunnel = self.tunnel(&mut socket, granted);
        let end = self.cut.run_until_cancelled(tunnel).await;
        if end.unwrap_or(End::Cut) == End::Cut {
            reset(&socket);
        }
        drop(place);
    }

    /// Carries a connection's bytes both ways, and the end of each direction.
    async fn tunnel(&self, socket: &mut TcpStream, granted: OwnedSemaphorePermit) -> End {
        let mut first = vec![0; BUFFER];
        let count = match socket.read(&mut first).await {
            Ok(0) => return End::Closed,
            Ok(count) => count,
            Err(_) => return End::Cut,
        };
        let Ok(stream) = self.opener.open().await else {
            return End::Cut;
        };
        let tunnel = stream.into_tunnel();
        let number = tunnel.number();
        let over = CancellationToken::new();
        self.streams.borrow_mut().insert(number, over.clone());
        let mut tunnel = tunnel.compat();
        let end = if tunnel.write_all(&first[..count]).await.is_ok() {
            drop(first);
            // From now on the server knows of it, and says when it is over.
            granted.forget();
            copy_both(socket, tunnel, &over).await
        } else {
            End::Cut
        };
        self.streams.borrow_mut().remove(&number);
        end
    }
}

/// Copies both directions to their ends. Once the server's end is `over`, what the program still sends is for nobody.
async fn copy_both(
    socket: &mut TcpStream,
    tunnel: Compat<Tunnel>,
    over: &CancellationToken,
) -> End {
    let (from_program, mut to_program) = socket.split();
    let (from_server, mut to_server) = tokio::io::split(tunnel);
    let mut from_program = BufReader::with_capacity(BUFFER, from_program);
    let mut from_server = BufReader::with_capacity(BUFFER, from_server);
    let half_closed = Cell::new(false);
    let up = async {
        copy_buf(&mut from_program, &mut to_server).await?;
        to_server.shutdown().await?;
        half_closed.set(true);
        Ok(())
    };
    let up = async { over.run_until_cancelled(up).await.unwrap_or(Ok(())) };
    let down = async {
        copy_buf(&mut from_server, &mut to_program).await?;
        to_program.shutdown().await
    };
    let both: io::Result<((), ())> = async { tokio::try_join!(up, down) }.await;
    if both.is_ok() {
        return End::Closed;
    }
    if half_closed.get() {
        // The multiplexer tells nobody that a stream was dropped which this side has closed: the server would wait for
        // ever for room to send in. So it is heard out.
        let _ = copy_buf(&mut from_server, &mut sink()).await;
    }
    End::Cut
}

/// Tells a connection that there are too many.
async fn turn_away(mut socket: TcpStream) {
    let farewell = async {
        socket.write_all(TOO_MANY).await?;
        socket.shutdown().await?;
        // What the client still sends is read: closing over it would reset the connection, and the
        // client might not get to read why.
        copy(&mut socket, &mut sink()).await
    };
    let _ = timeout(PARTING_DEADLINE, farewell).await;
}

/// Makes the end of a connection a reset, so that the program does not take it for a proper one.
fn reset(socket: &TcpStream) {
    let _ = socket.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_too_many_connections_has_the_length_that_it_claims() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", body.len());
        assert!(head.lines().any(|line| line == length), "{length}");
        assert!(
            body.starts_with("{\"error\":\"egress_failed\",\"reason\":\"too_many_connections\",")
        );
    }
}
