//! The bytes between a guest and the server, from the daemon's headers up to the messages.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use belljar_wire::{
    frame::{Frame, FrameError, FrameReader, FrameWriter, Kind},
    limits::{MAX_DATA, MAX_REPLY, MAX_REQUEST, MAX_TUNNELS},
    message::{
        Entry, FromEgress, FromHello, FromList, FromRun, FromWarm, GuestError, ReadEnd, Request,
        ToEgress, ToHello, ToRun,
    },
    mux::{self, MuxError, Side},
};
use futures_util::{
    FutureExt as _,
    io::{AsyncRead, AsyncWrite},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::AsyncReadExt as _;

use super::input::{Input, Pieces, settle};
use crate::engine::{daemon::Log, docker::demux::Demux};

/// How a stream of frames or of pieces ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Between two.
    Clean,
    /// Inside one.
    Cut,
    /// At what is none.
    Malformed,
    /// At one that is longer than may be.
    TooLong { length: usize, limit: usize },
}

/// Frames and how they end, read the obvious way.
pub(super) fn frames(mut bytes: &[u8], max_control: usize) -> (Vec<Frame>, End) {
    let mut frames = Vec::new();
    loop {
        let Some((header, rest)) = bytes.split_first_chunk::<5>() else {
            let end = if bytes.is_empty() {
                End::Clean
            } else {
                End::Cut
            };
            return (frames, end);
        };
        let kind = match header[0] {
            1 => Kind::Control,
            2 => Kind::Data,
            3 => Kind::Stdout,
            4 => Kind::Stderr,
            _ => return (frames, End::Malformed),
        };
        let length = header[1..]
            .iter()
            .fold(0, |sum, byte| sum * 256 + usize::from(*byte));
        let limit = if kind == Kind::Control {
            max_control
        } else {
            MAX_DATA
        };
        if length > limit {
            return (frames, End::TooLong { length, limit });
        }
        if rest.len() < length {
            return (frames, End::Cut);
        }
        let payload = rest[..length].to_vec();
        frames.push(Frame { kind, payload });
        bytes = &rest[length..];
    }
}

/// Frames: the same ones however they come, in no more memory than their bound, and written again the same.
pub(super) fn frame(bytes: &[u8]) {
    let mut input = Input(bytes);
    let max_control = match input.byte() {
        0 => MAX_REPLY,
        1 => MAX_REQUEST,
        small => usize::from(small),
    };
    let cuts = input.cuts();
    let (expected, end) = frames(input.0, max_control);
    let mut reader = FrameReader::new(Pieces::new(cuts, input.0), max_control);
    for frame in &expected {
        let read = settle(|| reader.next().now_or_never());
        let read = read.expect("a frame").expect("not the end");
        assert!(read.payload.capacity() <= MAX_DATA.max(max_control));
        assert_eq!(read, *frame);
    }
    let ended = match settle(|| reader.next().now_or_never()) {
        Ok(None) => End::Clean,
        Ok(Some(frame)) => panic!("made up {frame:?}"),
        Err(FrameError::Truncated) => End::Cut,
        Err(FrameError::Kind) => End::Malformed,
        Err(FrameError::TooLarge { length, limit }) => End::TooLong { length, limit },
        Err(error @ (FrameError::Io(_) | FrameError::Message)) => panic!("{error}"),
    };
    assert_eq!(ended, end);
    written_again(&expected);
}

fn written_again(frames: &[Frame]) {
    for frame in frames {
        if frame.kind == Kind::Control || frame.payload.is_empty() {
            continue;
        }
        let mut writer = FrameWriter::new(Vec::new(), MAX_REPLY);
        now(writer.send_bytes(frame.kind, &frame.payload)).expect("writes into memory");
        let bytes = writer.into_inner();
        assert_eq!(
            self::frames(&bytes, MAX_REPLY),
            (vec![frame.clone()], End::Clean)
        );
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("does not wait")
}

/// Messages: what is read is written in no more bytes, and read again as the same.
pub(super) fn message(bytes: &[u8]) {
    let mut input = Input(bytes);
    let read = match input.byte() % 11 {
        0 => again::<Request>,
        1 => again::<FromRun>,
        2 => again::<FromHello>,
        3 => again::<FromList>,
        4 => again::<FromEgress>,
        5 => again::<FromWarm>,
        6 => again::<ToRun>,
        7 => again::<ToHello>,
        8 => again::<ToEgress>,
        9 => again::<ReadEnd>,
        _ => again::<Result<Entry, GuestError>>,
    };
    read(input.0);
}

fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(payload: &[u8]) {
    let frame = |payload: &[u8]| Frame {
        kind: Kind::Control,
        payload: payload.to_vec(),
    };
    let Ok(message) = frame(payload).message::<T>() else {
        return;
    };
    let mut writer = FrameWriter::new(Vec::new(), MAX_REQUEST);
    now(writer.send(&message)).expect("no longer than it was");
    let written = writer.into_inner().split_off(5);
    assert!(written.len() <= payload.len());
    assert_eq!(frame(&written).message::<T>().unwrap(), message);
    // Nothing behind a message is borne.
    let longer = [&written, &[0][..]].concat();
    assert!(frame(&longer).message::<T>().is_err());
}

/// Bytes that came, and then nothing more; what is written goes nowhere.
struct Peer(Pieces);

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match AsyncRead::poll_read(Pin::new(&mut self.0), context, buffer) {
            Poll::Ready(Ok(0)) if !buffer.is_empty() => Poll::Pending,
            other => other,
        }
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The most polls of one case: each brings a piece, or a stream moves.
const MAX_POLLS: usize = 600;

/// The multiplexer: whatever the other side sends, no more of its streams live than may, none comes where none may be,
/// and what they carry is no more than came.
pub(super) fn mux(bytes: &[u8]) {
    let mut input = Input(bytes);
    let flags = input.byte();
    let side = if flags & 1 == 0 {
        Side::Server
    } else {
        Side::Guest
    };
    let may_open = flags & 2 == 0;
    let cuts = input.cuts();
    let came = input.0.len();
    let (opener, gate, mut driver) = mux::connect(Peer(Pieces::new(cuts, input.0)), side);
    let mut incoming = may_open.then(|| gate.open().expect("opened once"));
    let mut context = Context::from_waker(Waker::noop());
    let mut own = Vec::new();
    let mut opening = Some(Box::pin(opener.open()));
    let mut streams = Vec::new();
    let mut carried = 0;
    let mut buffer = [0; 512];
    for turn in 0..MAX_POLLS {
        if let Some(asked) = &mut opening
            && let Poll::Ready(opened) = asked.as_mut().poll(&mut context)
        {
            // Until there are too many.
            opening = opened.ok().map(|stream| {
                own.push(stream);
                Box::pin(opener.open())
            });
        }
        if let Some(incoming) = &mut incoming {
            while let Some(Some(stream)) = incoming.next().now_or_never() {
                streams.push(stream);
            }
        }
        if side == Side::Server {
            assert!(streams.len() <= MAX_TUNNELS, "{} streams", streams.len());
        }
        for stream in own.iter_mut().chain(&mut streams) {
            if let Poll::Ready(Ok(count)) =
                AsyncRead::poll_read(Pin::new(stream), &mut context, &mut buffer)
            {
                carried += count;
            }
        }
        // Now and then somebody lets go of a stream, or of the gate.
        if flags & 4 != 0 && turn % 7 == 6 {
            streams.pop();
            own.pop();
        }
        if flags & 8 != 0 && turn == 20 {
            incoming = None;
        }
        match driver.poll_unpin(&mut context) {
            Poll::Pending => {}
            Poll::Ready(
                Ok(()) | Err(MuxError::Closed | MuxError::Broken(_) | MuxError::TooManyStreams),
            ) => break,
            Poll::Ready(Err(MuxError::UnexpectedStream)) => {
                assert!(!may_open || flags & 8 != 0);
                break;
            }
        }
    }
    assert!(carried <= came);
    assert!(may_open || streams.is_empty());
}

/// Docker's two streams in one: told apart as a simple reader does, however they are cut and read.
pub(super) fn demux(bytes: &[u8]) {
    let mut input = Input(bytes);
    let step = usize::from(input.byte()).max(1);
    let ahead = usize::from(input.byte());
    let cuts = input.cuts();
    let all = input.0;
    let first = &all[..ahead.min(all.len())];
    let (stdout, stderr, end) = pieces(all);
    let log = Log::default();
    let mut demux = Demux::new(Pieces::new(cuts, &all[first.len()..]), first, log.clone());
    let mut whole = Vec::new();
    let mut buffer = vec![0; step];
    let ended = loop {
        match settle(|| demux.read(&mut buffer).now_or_never()) {
            Ok(0) => break End::Clean,
            Ok(count) => whole.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break End::Cut,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => break End::Malformed,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(ended, end);
    assert_eq!(whole, stdout);
    let expected = Log::default();
    expected.push(&stderr);
    assert_eq!(log.quoted(), expected.quoted());
}

fn pieces(mut bytes: &[u8]) -> (Vec<u8>, Vec<u8>, End) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let end = loop {
        let Some((header, rest)) = bytes.split_first_chunk::<8>() else {
            break if bytes.is_empty() {
                End::Clean
            } else {
                End::Cut
            };
        };
        let [kind @ 0..=2, 0, 0, 0, length @ ..] = *header else {
            break End::Malformed;
        };
        let length = u32::from_be_bytes(length) as usize;
        let piece = &rest[..length.min(rest.len())];
        match kind {
            1 => stdout.extend_from_slice(piece),
            2 => stderr.extend_from_slice(piece),
            _ => {}
        }
        if piece.len() < length {
            break End::Cut;
        }
        bytes = &rest[length..];
    };
    (stdout, stderr, end)
}
