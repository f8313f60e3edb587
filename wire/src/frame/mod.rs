//! Frames: `kind: u8`, `length: u32` big endian, payload.
//!
//! The reader refuses a length above the bound of its kind before it allocates, and keeps its state
//! between calls, so that a cancelled [`FrameReader::next`] loses nothing. The writer puts header and
//! payload into one buffer, so that a frame becomes one write below and never a tiny one before each
//! large one.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use serde::{Serialize, de::DeserializeOwned};

use crate::limits::MAX_DATA;

/// Bytes before each payload.
const HEADER: usize = 5;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of [`crate::message`], in postcard's encoding.
    Control,
    /// Bytes of a file or of standard input.
    Data,
    /// What the program wrote to standard output.
    Stdout,
    /// What the program wrote to standard error.
    Stderr,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Control),
            2 => Some(Self::Data),
            3 => Some(Self::Stdout),
            4 => Some(Self::Stderr),
            _ => None,
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Control => 1,
            Self::Data => 2,
            Self::Stdout => 3,
            Self::Stderr => 4,
        }
    }
}

/// One frame as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the payload is.
    pub kind: Kind,
    /// At most [`MAX_DATA`] bytes, or the reader's own bound for a control frame.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Decodes a control frame.
    ///
    /// # Errors
    /// [`FrameError::Kind`] if it is none, [`FrameError::Message`] if the payload is not exactly one
    /// message of this type.
    pub fn message<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        if self.kind != Kind::Control {
            return Err(FrameError::Kind);
        }
        match postcard::take_from_bytes(&self.payload) {
            Ok((message, [])) => Ok(message),
            Ok(_) | Err(_) => Err(FrameError::Message),
        }
    }
}

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream below failed.
    #[error("read or write a frame")]
    Io(#[from] std::io::Error),
    /// A kind that there is not, or not here.
    #[error("unexpected kind of frame")]
    Kind,
    /// A payload above its bound.
    #[error("frame of {length} bytes exceeds {limit}")]
    TooLarge {
        /// What the header claimed, or what was to be sent.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The stream ended inside a frame.
    #[error("stream ended inside a frame")]
    Truncated,
    /// A control payload that is not a message of the expected type.
    #[error("malformed message")]
    Message,
}

/// Reads frames from one direction of a stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    inner: R,
    max_control: usize,
    header: [u8; HEADER],
    header_read: usize,
    payload: Option<Payload>,
}

#[derive(Debug)]
struct Payload {
    kind: Kind,
    bytes: Vec<u8>,
    read: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// `max_control` bounds control frames: [`crate::limits::MAX_REQUEST`] in the guest,
    /// [`crate::limits::MAX_REPLY`] in the server.
    pub fn new(inner: R, max_control: usize) -> Self {
        Self {
            inner,
            max_control,
            header: [0; HEADER],
            header_read: 0,
            payload: None,
        }
    }

    /// The next frame; `None` when the stream ended between two. Loses nothing when cancelled.
    ///
    /// # Errors
    /// Any [`FrameError`]; the stream is of no use after one.
    pub async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The poll form of [`Self::next`].
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame>, FrameError>> {
        loop {
            if let Some(payload) = &mut self.payload {
                while payload.read < payload.bytes.len() {
                    let rest = &mut payload.bytes[payload.read..];
                    match ready!(Pin::new(&mut self.inner).poll_read(context, rest))? {
                        0 => return Poll::Ready(Err(FrameError::Truncated)),
                        count => payload.read += count,
                    }
                }
                let frame = Frame {
                    kind: payload.kind,
                    payload: std::mem::take(&mut payload.bytes),
                };
                self.payload = None;
                self.header_read = 0;
                return Poll::Ready(Ok(Some(frame)));
            }
            while self.header_read < HEADER {
                let rest = &mut self.header[self.header_read..];
                match ready!(Pin::new(&mut self.inner).poll_read(context, rest))? {
                    0 if self.header_read == 0 => return Poll::Ready(Ok(None)),
                    0 => return Poll::Ready(Err(FrameError::Truncated)),
                    count => self.header_read += count,
                }
            }
            let (kind, length) = self.parse_header()?;
            self.payload = Some(Payload {
                kind,
                bytes: vec![0; length],
                read: 0,
            });
        }
    }

    fn parse_header(&self) -> Result<(Kind, usize), FrameError> {
        let [kind, length @ ..] = self.header;
        let kind = Kind::from_byte(kind).ok_or(FrameError::Kind)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let limit = match kind {
            Kind::Control => self.max_control,
            Kind::Data | Kind::Stdout | Kind::Stderr => MAX_DATA,
        };
        if length > limit {
            return Err(FrameError::TooLarge { length, limit });
        }
        Ok((kind, length))
    }
}

/// Writes frames to one direction of a stream. A cancelled send leaves half a frame behind: drop the
/// writer then.
#[derive(Debug)]
pub struct FrameWriter<W> {
    inner: W,
    max_control: usize,
    buffer: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// `max_control` is what the other side's reader allows.
    pub fn new(inner: W, max_control: usize) -> Self {
        Self {
            inner,
            max_control,
            buffer: Vec::new(),
        }
    }

    /// Room for [`MAX_DATA`] bytes, to be filled by the caller and sent with [`Self::send_space`]:
    /// so a byte read from a pipe is not copied again to be framed.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.resize(HEADER + MAX_DATA, 0);
        &mut self.buffer[HEADER..]
    }

    /// Sends the first `length` bytes of [`Self::space`] as one frame.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] above [`MAX_DATA`], [`FrameError::Io`] from the stream.
    pub async fn send_space(&mut self, kind: Kind, length: usize) -> Result<(), FrameError> {
        if length > MAX_DATA || self.buffer.len() < HEADER + length {
            return Err(FrameError::TooLarge {
                length,
                limit: MAX_DATA,
            });
        }
        self.send_buffer(kind, length).await
    }

    /// Sends `bytes` in frames of at most [`MAX_DATA`].
    ///
    /// # Errors
    /// [`FrameError::Io`] from the stream.
    pub async fn send_bytes(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), FrameError> {
        for chunk in bytes.chunks(MAX_DATA) {
            self.buffer.clear();
            self.buffer.resize(HEADER, 0);
            self.buffer.extend_from_slice(chunk);
            self.send_buffer(kind, chunk.len()).await?;
        }
        Ok(())
    }

    /// Sends one message as a control frame.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] (nothing was sent then), [`FrameError::Io`] from the stream.
    pub async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        self.buffer.clear();
        self.buffer.resize(HEADER, 0);
        let buffer = std::mem::take(&mut self.buffer);
        self.buffer = postcard::to_extend(message, buffer).map_err(|_| FrameError::Message)?;
        let length = self.buffer.len() - HEADER;
        if length > self.max_control {
            self.buffer = Vec::new();
            return Err(FrameError::TooLarge {
                length,
                limit: self.max_control,
            });
        }
        self.send_buffer(Kind::Control, length).await?;
        if length > MAX_DATA {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> W {
        self.inner
    }

    /// Ends this direction: the other side's reader sees the end after the last frame.
    ///
    /// # Errors
    /// [`FrameError::Io`] from the stream.
    pub async fn close(&mut self) -> Result<(), FrameError> {
        Ok(self.inner.close().await?)
    }

    async fn send_buffer(&mut self, kind: Kind, length: usize) -> Result<(), FrameError> {
        let size = u32::try_from(length).map_err(|_| FrameError::TooLarge {
            length,
            limit: self.max_control,
        })?;
        self.buffer[0] = kind.to_byte();
        self.buffer[1..HEADER].copy_from_slice(&size.to_be_bytes());
        self.inner
            .write_all(&self.buffer[..HEADER + length])
            .await?;
        Ok(self.inner.flush().await?)
    }
}

#[cfg(test)]
mod tests;
