//! What every frame of the multiplexer's passes before the multiplexer sees it.
//!
//! The multiplexer takes memory for each frame, answers each ping, and goes on after the other side has broken its
//! rules. Here small frames that nobody reads yet are put together ([`super::backlog`]), frames that bring nothing are
//! held to a bound, and a breach ends the byte stream, so that the connection is given up. Large frames pass as they
//! come and are not copied. It must never change the bytes of a stream or their order.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures_util::io::{AsyncRead, AsyncWrite};

use super::SPLIT;
use super::backlog::{Backlogs, Breach, LEAST_CREDIT, Passage};
use crate::limits::{IDLE_FRAMES, IDLE_FRAMES_PER_SECOND};

/// Bytes of the multiplexer's header: version, tag, flags, stream, length.
const HEADER: usize = 12;
/// What is read at a time of frames that are held back or discarded.
const SCRATCH: usize = 4 * 1024;

const SYN: u16 = 1;
const ACK: u16 = 2;
const FIN: u16 = 4;
const RST: u16 = 8;
const FLAGS: u16 = SYN | ACK | FIN | RST;

const DATA: u8 = 0;
const WINDOW_UPDATE: u8 = 1;
const PING: u8 = 2;
const GO_AWAY: u8 = 3;

/// What a ping counts for among frames that bring nothing: it makes this side send a frame too. One side sends one in
/// ten seconds.
const PING_COST: u32 = 64;
/// The byte stream below, of which the multiplexer sees what may pass.
#[derive(Debug)]
pub(super) struct Sieve<T> {
    inner: T,
    backlogs: Backlogs,
    /// The header that is being read, or handed on.
    header: [u8; HEADER],
    header_read: usize,
    reading: Reading,
    writing: Outgoing,
    idle: Idle,
    broken: bool,
}

/// Where in the frames from the other side this is.
#[derive(Debug)]
enum Reading {
    /// In a header.
    Header,
    /// The multiplexer gets the header, then the piece, of which `given` bytes are gone, then `left` bytes as they come.
    Through {
        piece: Vec<u8>,
        given: usize,
        left: usize,
    },
    /// `left` bytes are held back for a stream.
    Hold { stream: u32, left: usize },
    /// `left` bytes are for nobody.
    Discard { left: usize },
}

/// Reads along what the multiplexer sends.
#[derive(Debug, Default)]
struct Outgoing {
    header: [u8; HEADER],
    read: usize,
    body: usize,
}

/// How many frames that bring nothing may still come.
#[derive(Debug)]
struct Idle {
    left: u32,
    since: Instant,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
struct Header {
    tag: u8,
    flags: u16,
    stream: u32,
    length: u32,
}

impl Header {
    fn parse(bytes: [u8; HEADER]) -> Result<Self, Breach> {
        let [version, tag, f0, f1, s0, s1, s2, s3, length @ ..] = bytes;
        let header = Self {
            tag,
            flags: u16::from_be_bytes([f0, f1]),
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            length: u32::from_be_bytes(length),
        };
        // Pings and farewells are about the connection, everything else is about a stream.
        let about_connection = matches!(tag, PING | GO_AWAY);
        if version != 0
            || tag > GO_AWAY
            || header.flags & !FLAGS != 0
            || about_connection != (header.stream == 0)
        {
            return Err(Breach("no frame of the multiplexer"));
        }
        Ok(header)
    }

    fn data(stream: u32, length: usize, ends: bool) -> [u8; HEADER] {
        let flags = if ends { FIN } else { 0 };
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let mut bytes = [0; HEADER];
        bytes[1] = DATA;
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[4..8].copy_from_slice(&stream.to_be_bytes());
        bytes[8..].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Idle {
    fn new() -> Self {
        Self {
            left: IDLE_FRAMES,
            since: Instant::now(),
        }
    }

    /// Charges a frame that brings nothing. The clock is asked only once the bound is reached.
    fn charge(&mut self, cost: u32) -> Result<(), Breach> {
        if self.left < cost {
            let now = Instant::now();
            let earned = now.duration_since(self.since).as_millis()
                * u128::from(IDLE_FRAMES_PER_SECOND)
                / 1000;
            let earned = u32::try_from(earned).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(earned).min(IDLE_FRAMES);
            self.since = now;
        }
        self.left = self
            .left
            .checked_sub(cost)
            .ok_or(Breach("too many frames that bring nothing"))?;
        Ok(())
    }
}

impl<T> Sieve<T> {
    pub(super) fn new(inner: T, backlogs: Backlogs) -> Self {
        Self {
            inner,
            backlogs,
            header: [0; HEADER],
            header_read: 0,
            reading: Reading::Header,
            writing: Outgoing::default(),
            idle: Idle::new(),
            broken: false,
        }
    }

    /// Judges the frame whose header is complete, and says what follows of it.
    fn judge(&mut self) -> Result<Reading, Breach> {
        let header = Header::parse(self.header)?;
        match header.tag {
            DATA => return self.data(header),
            WINDOW_UPDATE => {
                if header.has(FIN) {
                    return Err(Breach("no frame of the multiplexer"));
                }
                if header.has(RST) {
                    self.reset(header.stream)?;
                } else if header.has(SYN) {
                    self.open(header.stream)?;
                } else if u64::from(header.length) < LEAST_CREDIT
                    || !self.backlogs.earns_credit(header.stream)
                {
                    self.idle.charge(1)?;
                }
            }
            PING => self.idle.charge(PING_COST)?,
            _ => {}
        }
        Ok(Self::through(0))
    }

    fn data(&mut self, header: Header) -> Result<Reading, Breach> {
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        if length > SPLIT {
            return Err(Breach("a frame that is too large"));
        }
        if header.has(RST) {
            if length > 0 {
                return Err(Breach("a reset with bytes"));
            }
            self.reset(header.stream)?;
            return Ok(Self::through(0));
        }
        if header.has(SYN) {
            self.open(header.stream)?;
        }
        let passage = self
            .backlogs
            .frame(header.stream, length, header.has(FIN))?;
        if passage == Passage::Discard || (length == 0 && !header.has(SYN | FIN)) {
            self.idle.charge(1)?;
        }
        Ok(match passage {
            Passage::Through => Self::through(length),
            Passage::Discard => Reading::Discard { left: length },
            Passage::Hold => Reading::Hold {
                stream: header.stream,
                left: length,
            },
        })
    }

    /// A stream that is opened and reset at once brings nothing, so that each counts.
    fn open(&mut self, stream: u32) -> Result<(), Breach> {
        self.idle.charge(1)?;
        self.backlogs.open(stream)
    }

    /// Only the first reset of a stream that somebody may read brings something.
    fn reset(&mut self, stream: u32) -> Result<(), Breach> {
        if self.backlogs.reset(stream) {
            return Ok(());
        }
        self.idle.charge(1)
    }

    /// Hands on the header that was read, and `left` bytes behind it.
    fn through(left: usize) -> Reading {
        Reading::Through {
            piece: Vec::new(),
            given: 0,
            left,
        }
    }

    /// Whether a frame of what was held back may go now: nothing of another one has been read yet.
    fn between_frames(&self) -> bool {
        self.header_read == 0 && matches!(self.reading, Reading::Header)
    }
}

impl<T: AsyncRead + Unpin> Sieve<T> {
    fn poll_sifted(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<usize, Error>> {
        loop {
            if self.broken {
                return Poll::Ready(Err(broken(Breach("the multiplexer gave up"))));
            }
            match &mut self.reading {
                Reading::Through { piece, given, left } => {
                    let ours = [&self.header[..], piece];
                    if let Some(rest) = rest_of(&ours, *given) {
                        let count = rest.len().min(buffer.len());
                        buffer[..count].copy_from_slice(&rest[..count]);
                        *given += count;
                        return Poll::Ready(Ok(count));
                    }
                    if *left > 0 {
                        let most = (*left).min(buffer.len());
                        let inner = Pin::new(&mut self.inner);
                        let count = ready!(inner.poll_read(context, &mut buffer[..most]))?;
                        *left -= count;
                        return Poll::Ready(Ok(count));
                    }
                    self.reading = Reading::Header;
                }
                Reading::Hold { left: 0, .. } | Reading::Discard { left: 0 } => {
                    self.reading = Reading::Header;
                }
                Reading::Header | Reading::Hold { .. } | Reading::Discard { .. } => {}
            }
            if self.between_frames()
                && let Some((stream, piece, ends)) = self.backlogs.release()
            {
                self.header = Header::data(stream, piece.len(), ends);
                self.reading = Reading::Through {
                    piece,
                    given: 0,
                    left: 0,
                };
                continue;
            }
            match self.poll_more(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(0)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // What was drained since then has woken nobody.
                Poll::Pending if !self.backlogs.wake_later(context) && self.between_frames() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads more of a frame that is not being handed on; `false` at the end.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let inner = Pin::new(&mut self.inner);
        let mut scratch = [0; SCRATCH];
        match &mut self.reading {
            Reading::Hold { stream, left } => {
                let most = (*left).min(SCRATCH);
                let count = ready!(inner.poll_read(context, &mut scratch[..most]))?;
                *left -= count;
                self.backlogs.hold(*stream, &scratch[..count]);
                cut(count)
            }
            Reading::Discard { left } => {
                let most = (*left).min(SCRATCH);
                let count = ready!(inner.poll_read(context, &mut scratch[..most]))?;
                *left -= count;
                cut(count)
            }
            Reading::Header | Reading::Through { .. } => {
                let rest = &mut self.header[self.header_read..];
                let count = ready!(inner.poll_read(context, rest))?;
                if count == 0 {
                    return if self.header_read == 0 {
                        Poll::Ready(Ok(false))
                    } else {
                        cut(0)
                    };
                }
                self.header_read += count;
                if self.header_read == HEADER {
                    self.header_read = 0;
                    self.reading = self.judge().map_err(broken)?;
                }
                Poll::Ready(Ok(true))
            }
        }
    }
}

/// What of two slices, taken as one, is behind the first `given` bytes: at most the rest of the first one.
fn rest_of<'a>(slices: &[&'a [u8]; 2], given: usize) -> Option<&'a [u8]> {
    let rest = match slices[0].get(given..) {
        Some(rest) if !rest.is_empty() => rest,
        _ => slices[1].get(given - slices[0].len()..)?,
    };
    (!rest.is_empty()).then_some(rest)
}

/// An end in the middle of a frame is none.
fn cut(count: usize) -> Poll<Result<bool, Error>> {
    Poll::Ready(if count == 0 {
        Err(ErrorKind::UnexpectedEof.into())
    } else {
        Ok(true)
    })
}

fn broken(breach: Breach) -> Error {
    Error::new(ErrorKind::InvalidData, breach.0)
}

impl<T: AsyncRead + Unpin> AsyncRead for Sieve<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_sifted(context, buffer)
    }
}

impl Outgoing {
    /// Takes note of bytes that were sent; `false` once the multiplexer has told the other side that it gives up.
    fn note(&mut self, mut bytes: &[u8], backlogs: &Backlogs) -> bool {
        while !bytes.is_empty() {
            if self.body > 0 {
                let count = self.body.min(bytes.len());
                self.body -= count;
                bytes = &bytes[count..];
                continue;
            }
            let count = (HEADER - self.read).min(bytes.len());
            let (now, later) = bytes.split_at(count);
            self.header[self.read..self.read + count].copy_from_slice(now);
            self.read += count;
            bytes = later;
            if self.read < HEADER {
                continue;
            }
            self.read = 0;
            let Ok(header) = Header::parse(self.header) else {
                return false;
            };
            match header.tag {
                DATA => {
                    self.body = usize::try_from(header.length).unwrap_or(usize::MAX);
                    backlogs.sent(header.stream, header.length);
                }
                WINDOW_UPDATE => backlogs.grant(header.stream, header.length),
                // It says so of a breach, and would go on reading.
                GO_AWAY => return false,
                _ => {}
            }
        }
        true
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Sieve<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let this = &mut *self;
        let count = ready!(Pin::new(&mut this.inner).poll_write(context, bytes))?;
        if !this.writing.note(&bytes[..count], &this.backlogs) {
            this.broken = true;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(context)
    }
}

#[cfg(test)]
mod tests;
