use futures_util::FutureExt as _;
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _, Cursor};
use futures_util::task::noop_waker;
use proptest::prelude::*;

use super::*;

/// Both ends of a byte stream in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe(Arc<std::sync::Mutex<(std::collections::VecDeque<u8>, bool)>>);

#[derive(Debug)]
pub(super) struct End {
    read: Pipe,
    write: Pipe,
}

pub(super) fn pipe() -> (End, End) {
    let (left, right) = (Pipe::default(), Pipe::default());
    (
        End {
            read: left.clone(),
            write: right.clone(),
        },
        End {
            read: right,
            write: left,
        },
    )
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        let mut pipe = self.read.0.lock().unwrap();
        if pipe.0.is_empty() {
            return if pipe.1 {
                Poll::Ready(Ok(0))
            } else {
                Poll::Pending
            };
        }
        let count = pipe.0.len().min(buffer.len());
        for (slot, byte) in buffer.iter_mut().zip(pipe.0.drain(..count)) {
            *slot = byte;
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.write.0.lock().unwrap().0.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.write.0.lock().unwrap().1 = true;
        Poll::Ready(Ok(()))
    }
}

/// Polls everything in turn until `wanted` is ready. Nothing in here waits for a clock.
fn drive<A, B, T>(a: &mut Driver<A>, b: &mut Driver<B>, wanted: impl Future<Output = T>) -> T
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let waker = noop_waker();
    let mut context = Context::from_waker(&waker);
    let mut wanted = std::pin::pin!(wanted);
    for _ in 0..10_000 {
        if let Poll::Ready(value) = wanted.as_mut().poll(&mut context) {
            return value;
        }
        let _ = Pin::new(&mut *a).poll(&mut context);
        let _ = Pin::new(&mut *b).poll(&mut context);
    }
    panic!("made no progress");
}

#[test]
fn bytes_go_both_ways_and_an_end_is_seen() {
    let (near, far) = pipe();
    let (opener, _gate, mut server) = connect(near, Side::Server);
    let (_opener, gate, mut guest) = connect(far, Side::Guest);
    let mut incoming = gate.open().unwrap();
    let mut stream = drive(&mut server, &mut guest, opener.open()).unwrap();
    drive(&mut server, &mut guest, stream.write_all(b"question")).unwrap();
    let mut other = drive(&mut server, &mut guest, incoming.next()).unwrap();
    let mut buffer = [0; 8];
    drive(&mut server, &mut guest, other.read_exact(&mut buffer)).unwrap();
    assert_eq!(&buffer, b"question");
    drive(&mut server, &mut guest, other.write_all(b"answer")).unwrap();
    drive(&mut server, &mut guest, other.close()).unwrap();
    let mut answer = Vec::new();
    drive(&mut server, &mut guest, stream.read_to_end(&mut answer)).unwrap();
    assert_eq!(answer, b"answer");
}

#[test]
fn more_streams_than_the_bound_are_refused_and_the_connection_lives() {
    let (near, far) = pipe();
    let (opener, _gate, mut server) = connect(near, Side::Server);
    let (_opener, gate, mut guest) = connect(far, Side::Guest);
    let _incoming = gate.open().unwrap();
    let mut streams = Vec::new();
    for _ in 0..MAX_OPEN {
        streams.push(drive(&mut server, &mut guest, opener.open()).unwrap());
    }
    let refused = drive(&mut server, &mut guest, opener.open());
    assert!(matches!(refused, Err(MuxError::TooManyStreams)));
    streams.pop();
    drive(&mut server, &mut guest, opener.open()).unwrap();
}

#[test]
fn a_stream_where_none_may_be_ends_the_connection() {
    let (near, far) = pipe();
    let (_opener, _gate, mut server) = connect(near, Side::Server);
    let (opener, _gate, mut guest) = connect(far, Side::Guest);
    let waker = noop_waker();
    let mut context = Context::from_waker(&waker);
    let mut open = std::pin::pin!(opener.open());
    assert!(open.as_mut().poll(&mut context).is_pending());
    assert!(Pin::new(&mut guest).poll(&mut context).is_pending());
    let mut stream = open.now_or_never().unwrap().unwrap();
    stream.write_all(b"x").now_or_never().unwrap().unwrap();
    assert!(Pin::new(&mut guest).poll(&mut context).is_pending());
    let ended = Pin::new(&mut server).poll(&mut context);
    assert!(matches!(
        ended,
        Poll::Ready(Err(MuxError::UnexpectedStream))
    ));
}

/// The two ends of a connection whose server lets the guest's streams in.
struct Both {
    server: Driver<End>,
    guest: Driver<End>,
    opener: Opener,
    gate: Gate,
}

impl Both {
    fn new() -> Self {
        let (near, far) = pipe();
        let (_opener, gate, server) = connect(near, Side::Server);
        let (opener, _gate, guest) = connect(far, Side::Guest);
        Self {
            server,
            guest,
            opener,
            gate,
        }
    }

    fn drive<T>(&mut self, wanted: impl Future<Output = T>) -> T {
        drive(&mut self.server, &mut self.guest, wanted)
    }

    /// A stream of the guest's that the server hears of.
    fn open(&mut self) -> Stream {
        let opener = self.opener.clone();
        let mut stream = self.drive(opener.open()).unwrap();
        self.drive(stream.write_all(b"x")).unwrap();
        stream
    }

    /// Moves everything that is under way; how the server's end took it.
    fn settle(&mut self) -> Poll<Result<(), MuxError>> {
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        for _ in 0..100 {
            let _ = Pin::new(&mut self.guest).poll(&mut context);
            let ended = Pin::new(&mut self.server).poll(&mut context);
            if ended.is_ready() {
                return ended;
            }
        }
        Poll::Pending
    }
}

#[test]
fn streams_of_the_guest_come_in_while_the_gate_is_open() {
    let mut both = Both::new();
    let mut incoming = both.gate.open().unwrap();
    assert!(both.gate.open().is_none(), "one holds the gate at a time");
    for round in 0..3 {
        let mut ours: Vec<Stream> = (0..MAX_TUNNELS).map(|_| both.open()).collect();
        let refused = both.opener.clone();
        let refused = both.drive(refused.open());
        assert!(matches!(refused, Err(MuxError::TooManyStreams)));
        for stream in &mut ours {
            let mut other = both.drive(incoming.next()).unwrap();
            let mut byte = [0];
            both.drive(other.read_exact(&mut byte)).unwrap();
            both.drive(other.write_all(b"back")).unwrap();
            both.drive(other.close()).unwrap();
            let mut back = Vec::new();
            both.drive(stream.read_to_end(&mut back)).unwrap();
            assert_eq!(back, b"back", "round {round}");
        }
        drop(ours);
        assert!(both.settle().is_pending());
    }
}

#[test]
fn streams_that_nobody_takes_are_bounded_also_where_each_is_cut_at_once() {
    let mut both = Both::new();
    let _incoming = both.gate.open().unwrap();
    for _ in 0..MAX_TUNNELS {
        drop(both.open());
        assert!(both.settle().is_pending());
    }
    drop(both.open());
    assert!(matches!(
        both.settle(),
        Poll::Ready(Err(MuxError::TooManyStreams))
    ));
}

#[test]
fn a_few_streams_after_the_gate_was_shut_are_reset_and_more_end_the_connection() {
    let mut both = Both::new();
    drop(both.gate.open().unwrap());
    for _ in 0..MAX_TUNNELS {
        let mut late = both.open().into_tunnel();
        let error = both.drive(late.read(&mut [0])).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    let _one_more = both.open();
    assert!(matches!(
        both.settle(),
        Poll::Ready(Err(MuxError::UnexpectedStream))
    ));
}

#[test]
fn a_gate_can_be_opened_again_and_ends_with_the_connection() {
    let mut both = Both::new();
    drop(both.gate.open().unwrap());
    let mut incoming = both.gate.open().unwrap();
    let _stream = both.open();
    assert!(both.drive(incoming.next()).is_some());
    let Both {
        server, gate: left, ..
    } = both;
    drop(server);
    assert!(incoming.next().now_or_never().unwrap().is_none());
    drop(incoming);
    let mut afterwards = left.open().unwrap();
    assert!(afterwards.next().now_or_never().unwrap().is_none());
}

#[test]
fn a_cut_tunnel_does_not_pass_for_one_that_ended() {
    let mut both = Both::new();
    let mut incoming = both.gate.open().unwrap();
    let mut ended = both.open().into_tunnel();
    let mut cut = both.open().into_tunnel();
    let mut near = both.drive(incoming.next()).unwrap().into_tunnel();
    both.drive(near.close()).unwrap();
    assert_eq!(both.drive(ended.read(&mut [0])).unwrap(), 0);
    // Only one direction has ended.
    both.drive(ended.write_all(b"y")).unwrap();
    both.drive(ended.close()).unwrap();
    let mut rest = Vec::new();
    both.drive(near.read_to_end(&mut rest)).unwrap();
    assert_eq!(rest, b"xy");

    drop(both.drive(incoming.next()).unwrap());
    let error = both.drive(cut.read(&mut [0])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

proptest! {
    #[test]
    fn arbitrary_bytes_end_the_connection_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..2048),
    ) {
        let (_opener, _gate, driver) = connect(Cursor::new(bytes), Side::Server);
        let _ = driver.now_or_never();
    }

    #[test]
    fn nearly_valid_frames_end_the_connection_without_a_panic(
        frames in proptest::collection::vec(
            (0_u8..5, 0_u16..16, 0_u32..6, 0_u32..400, any::<bool>()), 0..40),
    ) {
        let mut bytes = Vec::new();
        for (tag, flags, stream, length, with_body) in frames {
            bytes.extend_from_slice(&[0, tag]);
            bytes.extend_from_slice(&flags.to_be_bytes());
            bytes.extend_from_slice(&stream.to_be_bytes());
            bytes.extend_from_slice(&length.to_be_bytes());
            if with_body {
                bytes.extend(std::iter::repeat_n(0_u8, length as usize));
            }
        }
        for side in [Side::Server, Side::Guest] {
            let (opener, gate, mut driver) = connect(Cursor::new(bytes.clone()), side);
            let _incoming = gate.open().unwrap();
            let waker = noop_waker();
            let mut context = Context::from_waker(&waker);
            let mut open = std::pin::pin!(opener.open());
            let _ = open.as_mut().poll(&mut context);
            let _ = Pin::new(&mut driver).poll(&mut context);
        }
    }
}
