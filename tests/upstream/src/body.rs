//! Bodies that are made while they are sent: huge, slow, cut off, with trailers.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    HeaderMap,
    body::{Body, Frame, SizeHint},
};
use tokio::time::{Sleep, sleep};

/// The period of the bytes of a huge body: a prime, so that no piece of a round size equals the next.
const PERIOD: usize = 251;
/// How much of a huge body is sent at a time: whole periods, so that every piece is the same.
const PIECE_BYTES: usize = PERIOD * 261;

/// How long a piece has to leave before the connection breaks: an HTTP/2 stream that is reset forgets what it did not
/// send yet.
const BEFORE_CUT: Duration = Duration::from_millis(50);

/// The byte at this place of a huge body.
#[must_use]
pub fn huge_byte(at: u64) -> u8 {
    u8::try_from(at % PERIOD as u64).unwrap_or_default()
}

/// A body.
pub(crate) enum Made {
    /// These pieces, one after the other, then trailers if there are any.
    Pieces {
        /// What is still to be sent, last first.
        pieces: Vec<Bytes>,
        /// What comes after it.
        trailers: Option<HeaderMap>,
        /// The length that is announced; none: none is.
        length: Option<u64>,
    },
    /// Bytes by the gigabyte.
    Huge {
        /// What every piece holds.
        piece: Bytes,
        /// How many bytes are still to be sent.
        left: u64,
        /// Whether their number is announced.
        sized: bool,
    },
    /// One byte now and then.
    Drip {
        /// How many are still to be sent.
        left: u64,
        /// How long each waits.
        every: Duration,
        /// Until the next one.
        timer: Pin<Box<Sleep>>,
    },
    /// A piece, and then an error instead of the rest that was announced.
    Cut {
        /// The piece.
        piece: Option<Bytes>,
        /// Once the piece was given: until the error.
        timer: Option<Pin<Box<Sleep>>>,
        /// The length that is announced.
        length: u64,
    },
}

impl Made {
    /// A body that is known whole.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::Pieces {
            length: Some(bytes.len() as u64),
            pieces: vec![bytes],
            trailers: None,
        }
    }

    /// The same in pieces of this many bytes, of unknown length.
    pub(crate) fn in_pieces(bytes: &[u8], size: usize, trailers: Option<HeaderMap>) -> Self {
        let mut pieces: Vec<Bytes> = bytes
            .chunks(size.max(1))
            .map(Bytes::copy_from_slice)
            .collect();
        pieces.reverse();
        Self::Pieces {
            pieces,
            trailers,
            length: None,
        }
    }

    /// This many bytes, each as [`huge_byte`] says.
    pub(crate) fn huge(bytes: u64, sized: bool) -> Self {
        let piece: Vec<u8> = (0..PIECE_BYTES as u64).map(huge_byte).collect();
        Self::Huge {
            piece: piece.into(),
            left: bytes,
            sized,
        }
    }

    /// This many bytes, one at a time.
    pub(crate) fn drip(bytes: u64, every: Duration) -> Self {
        Self::Drip {
            left: bytes,
            every,
            timer: Box::pin(sleep(every)),
        }
    }

    /// A piece of a body that is announced as `length` bytes, and then an error.
    pub(crate) fn cut(piece: &'static [u8], length: u64) -> Self {
        Self::Cut {
            piece: Some(Bytes::from_static(piece)),
            timer: None,
            length,
        }
    }
}

impl Body for Made {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let data = |bytes| Poll::Ready(Some(Ok(Frame::data(bytes))));
        match &mut *self {
            Self::Pieces {
                pieces, trailers, ..
            } => match pieces.pop() {
                Some(piece) => data(piece),
                None => Poll::Ready(trailers.take().map(|map| Ok(Frame::trailers(map)))),
            },
            Self::Huge { piece, left, .. } => {
                if *left == 0 {
                    return Poll::Ready(None);
                }
                let count = usize::try_from(*left).map_or(piece.len(), |l| l.min(piece.len()));
                *left -= count as u64;
                data(piece.slice(..count))
            }
            Self::Drip { left, every, timer } => {
                if *left == 0 {
                    return Poll::Ready(None);
                }
                ready!(timer.as_mut().poll(cx));
                *left -= 1;
                *timer = Box::pin(sleep(*every));
                data(Bytes::from_static(b"."))
            }
            Self::Cut { piece, timer, .. } => {
                if let Some(piece) = piece.take() {
                    return data(piece);
                }
                let timer = timer.get_or_insert_with(|| Box::pin(sleep(BEFORE_CUT)));
                ready!(timer.as_mut().poll(cx));
                Poll::Ready(Some(Err(io::Error::other("cut off, as asked"))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces {
                length: Some(length),
                ..
            }
            | Self::Cut { length, .. } => SizeHint::with_exact(*length),
            Self::Huge {
                left, sized: true, ..
            } => SizeHint::with_exact(*left),
            Self::Pieces { .. } | Self::Huge { .. } | Self::Drip { .. } => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Pieces {
                pieces, trailers, ..
            } => pieces.iter().all(Bytes::is_empty) && trailers.is_none(),
            Self::Huge { left, .. } | Self::Drip { left, .. } => *left == 0,
            Self::Cut { .. } => false,
        }
    }
}
