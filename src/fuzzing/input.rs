//! How a fuzzer's bytes become the parts of a case: what comes first decides, and what is left is the text.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};

/// The most lengths that say how a text is cut.
const MAX_CUTS: usize = 15;

/// What is left of a fuzzer's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte; 0 once there is none.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// The next two bytes as a number.
    pub(super) fn word(&mut self) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()]))
    }

    /// The next bytes: so many, or as many as there are.
    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// How the rest is to be cut.
    pub(super) fn cuts(&mut self) -> Cuts<'a> {
        let count = usize::from(self.byte()) % (MAX_CUTS + 1);
        Cuts(self.take(count))
    }

    /// The rest as text, as far as it is text.
    pub(super) fn text(self) -> &'a str {
        self.0
            .utf8_chunks()
            .next()
            .map_or("", |chunk| chunk.valid())
    }
}

/// Lengths of pieces, over and over; none: one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts<'a>(&'a [u8]);

impl<'a> Cuts<'a> {
    /// The pieces of `bytes`, none of them empty.
    pub(super) fn of<'b>(self, bytes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> + use<'a, 'b> {
        let mut left = bytes;
        let mut at = 0;
        std::iter::from_fn(move || {
            if left.is_empty() {
                return None;
            }
            let length = match self.0 {
                [] => left.len(),
                lengths => usize::from(lengths[at % lengths.len()]).max(1),
            };
            at += 1;
            let (piece, rest) = left.split_at(length.min(left.len()));
            left = rest;
            Some(piece)
        })
    }
}

/// A stream that brings one piece at a time, and between two of them has nothing for a moment. It ends after the last.
#[derive(Debug)]
pub(super) struct Pieces {
    all: Vec<Vec<u8>>,
    next: usize,
    waits: bool,
}

impl Pieces {
    pub(super) fn new(cuts: Cuts<'_>, bytes: &[u8]) -> Self {
        Self {
            all: cuts.of(bytes).map(<[u8]>::to_vec).collect(),
            next: 0,
            waits: false,
        }
    }

    fn poll(&mut self, most: usize) -> Poll<&[u8]> {
        if self.next == self.all.len() {
            return Poll::Ready(&[]);
        }
        // Whoever reads is polled again without a waker: see `settle`.
        self.waits = !self.waits;
        if self.waits {
            return Poll::Pending;
        }
        let piece = &mut self.all[self.next];
        if piece.len() > most {
            let rest = piece.split_off(most);
            let first = std::mem::replace(piece, rest);
            self.all.insert(self.next, first);
        }
        self.next += 1;
        Poll::Ready(&self.all[self.next - 1])
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let most = buffer.remaining();
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        self.poll(most).map(|piece| {
            buffer.put_slice(piece);
            Ok(())
        })
    }
}

impl futures_util::io::AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        let most = buffer.len();
        if most == 0 {
            return Poll::Ready(Ok(0));
        }
        self.poll(most).map(|piece| {
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        })
    }
}

/// What `make` comes to. The future is made anew whenever it has to wait, as one that was cancelled: nothing may be lost
/// by that.
pub(super) fn settle<T>(mut make: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = make() {
            return value;
        }
    }
}
