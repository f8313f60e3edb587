//! A stream of which the beginning was read already, and is read again.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Gives `prefix` first and then what the stream gives. Writes go to the stream.
#[derive(Debug)]
pub(super) struct Prefixed<T> {
    prefix: Bytes,
    io: T,
}

impl<T> Prefixed<T> {
    pub(super) fn new(prefix: Bytes, io: T) -> Self {
        Self { prefix, io }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Prefixed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let taken = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..taken]);
        self.prefix.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prefixed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn the_beginning_is_read_first_and_once() {
        let (mut near, far) = tokio::io::duplex(64);
        let mut far = Prefixed::new(Bytes::from_static(b"begin"), far);
        near.write_all(b"ning").await.unwrap();
        let mut start = [0; 3];
        far.read_exact(&mut start).await.unwrap();
        let mut rest = [0; 6];
        far.read_exact(&mut rest).await.unwrap();
        assert_eq!((&start, &rest), (b"beg", b"inning"));
        far.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
    }
}
