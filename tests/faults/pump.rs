//! Carries bytes between a server and its daemon, and breaks a stream at the byte it was told to.

use std::{
    io::{Read, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{proxy::Shared, step::Phase};

/// What goes wrong with an attach stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// It stands still for a moment, and goes on.
    Pause,
    /// Both directions end, in the middle of a frame.
    Cut,
    /// What comes from the container ends; the other direction stays open.
    EndOut,
    /// What goes to the container ends; the other direction stays open.
    EndIn,
    /// Bytes of nobody's come in between.
    Garbage,
    /// Bits are turned.
    Corrupt,
    /// Nothing goes on in either direction, for as long as the fault lasts, and nothing is closed.
    Stall,
}

/// How long a pause takes: less than any patience.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a stream that hangs looks whether the fault is over.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of what went by that are looked at again, for a mark that came in two pieces.
const TAIL: usize = 64;

/// Carries a call and its answer. The end of either side is the end of both.
pub(crate) fn call(client: UnixStream, daemon: UnixStream) {
    let (back, forth) = (
        (daemon.try_clone().unwrap(), client.try_clone().unwrap()),
        (client, daemon),
    );
    let body = thread::spawn(move || one_way(forth.0, &forth.1, Shutdown::Both));
    one_way(back.0, &back.1, Shutdown::Both);
    let _ = body.join();
}

fn one_way(mut from: UnixStream, to: &UnixStream, end: Shutdown) {
    let mut writer = to;
    let _ = std::io::copy(&mut from, &mut writer);
    let _ = to.shutdown(end);
    if end == Shutdown::Both {
        let _ = from.shutdown(end);
    }
}

/// A connection that was taken over, in both directions.
struct Stream {
    client: UnixStream,
    daemon: UnixStream,
    shared: Arc<Shared>,
    /// Both directions stand still.
    still: AtomicBool,
    /// Nothing goes to the container any more.
    no_input: AtomicBool,
}

/// The direction of a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// Carries a connection that was taken over; the end of one direction is not the end of the other.
pub(crate) fn stream(client: UnixStream, daemon: UnixStream, shared: Arc<Shared>) {
    let stream = Arc::new(Stream {
        client,
        daemon,
        shared,
        still: AtomicBool::new(false),
        no_input: AtomicBool::new(false),
    });
    let other = Arc::clone(&stream);
    let input = thread::spawn(move || other.carry(Way::In));
    stream.carry(Way::Out);
    let _ = input.join();
}

impl Stream {
    fn carry(&self, way: Way) {
        let (mut from, to) = match way {
            Way::Out => (&self.daemon, &self.client),
            Way::In => (&self.client, &self.daemon),
        };
        let mut buffer = [0; 16 * 1024];
        let mut tail: Vec<u8> = Vec::new();
        // Of what comes out, the daemon's answer to the call itself goes first.
        let mut begun = way == Way::In;
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            let piece = &mut buffer[..count];
            self.wait();
            if begun {
                tail.extend_from_slice(piece);
                let due = |phase: Phase| {
                    let mark = match way {
                        Way::Out => phase.mark_out(),
                        Way::In => phase.mark_in(),
                    };
                    mark.is_some_and(|mark| contains(&tail, mark.as_bytes()))
                };
                if let Some(breach) = self.shared.breach(due)
                    && !self.broken(breach, piece)
                {
                    return;
                }
                tail.drain(..tail.len().saturating_sub(TAIL));
            } else {
                tail.extend_from_slice(piece);
                begun = contains(&tail, b"\r\n\r\n");
                if begun {
                    tail.clear();
                }
            }
            if way == Way::In && self.no_input.load(Ordering::SeqCst) {
                continue;
            }
            if (&mut &*to).write_all(piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Breaks it. Whether the direction goes on.
    fn broken(&self, breach: Breach, piece: &mut [u8]) -> bool {
        match breach {
            Breach::Pause => thread::sleep(PAUSE),
            Breach::Cut => {
                let _ = (&self.client).write_all(&piece[..piece.len() / 2]);
                let _ = self.client.shutdown(Shutdown::Both);
                let _ = self.daemon.shutdown(Shutdown::Both);
                return false;
            }
            Breach::EndOut => {
                let _ = (&self.client).write_all(&piece[..piece.len() / 2]);
                let _ = self.client.shutdown(Shutdown::Write);
            }
            Breach::EndIn => {
                self.no_input.store(true, Ordering::SeqCst);
                let _ = self.daemon.shutdown(Shutdown::Write);
            }
            Breach::Garbage => {
                let _ = (&self.client).write_all(&[0xff; 300]);
            }
            Breach::Corrupt => piece.iter_mut().for_each(|byte| *byte ^= 0x55),
            Breach::Stall => {
                self.still.store(true, Ordering::SeqCst);
                let _hanging = self.shared.hangs();
                let before = self.shared.generation();
                while self.shared.generation() == before && !self.gone() {
                    thread::sleep(LOOK);
                }
                self.still.store(false, Ordering::SeqCst);
            }
        }
        true
    }

    /// While the other direction has stopped both.
    fn wait(&self) {
        while self.still.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
        }
    }

    /// Whether the server has closed its end.
    fn gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.client, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok()
            && fds[0]
                .revents()
                .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }
}

fn contains(bytes: &[u8], mark: &[u8]) -> bool {
    mark.is_empty() || bytes.windows(mark.len()).any(|part| part == mark)
}
