//! A stream of which the beginning was read already, and is read again.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use super::watched::{Watch, Watched};

/// Gives what was read already first, and then what the stream gives.
pub(super) type Prefixed<T> = Watched<T, Prefix>;

/// What was read already.
#[derive(Debug)]
pub(super) struct Prefix(Bytes);

impl<T> Prefixed<T> {
    pub(super) fn new(prefix: Bytes, io: T) -> Self {
        Self {
            io,
            watch: Prefix(prefix),
        }
    }
}

impl Watch for Prefix {
    fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_empty() {
            return Pin::new(io).poll_read(cx, buf);
        }
        let taken = self.0.len().min(buf.remaining());
        buf.put_slice(&self.0[..taken]);
        self.0.advance(taken);
        Poll::Ready(Ok(()))
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
