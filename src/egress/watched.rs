//! A connection of which something takes note as its bytes pass.
//!
//! What takes note, and what it lets pass, is each [`Watch`]'s to say; nothing here may hold or change a byte by itself.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Takes note of what is read and written. Unless it says otherwise, everything passes.
pub(crate) trait Watch: Unpin {
    /// Reads from `io` what may be read.
    fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(io).poll_read(cx, buf)
    }

    /// How many of `wanted` bytes may be written.
    fn room(&mut self, wanted: usize) -> io::Result<usize> {
        Ok(wanted)
    }

    /// Takes note that so many bytes were written.
    fn wrote(&mut self, _bytes: usize) {}
}

/// A connection and what watches it.
#[derive(Debug)]
pub(crate) struct Watched<T, W> {
    pub(super) io: T,
    pub(super) watch: W,
}

impl<T: AsyncRead + Unpin, W: Watch> AsyncRead for Watched<T, W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, watch } = self.get_mut();
        watch.poll_read(io, cx, buf)
    }
}

impl<T: AsyncWrite + Unpin, W: Watch> AsyncWrite for Watched<T, W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { io, watch } = self.get_mut();
        let room = watch.room(bytes.len())?;
        let written = ready!(Pin::new(io).poll_write(cx, &bytes[..room]))?;
        watch.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        if self.watch.room(wanted)? < wanted {
            // One slice at a time, cut where the room ends.
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(cx, first.map_or(&[], |slice| slice));
        }
        let Self { io, watch } = self.get_mut();
        let written = ready!(Pin::new(io).poll_write_vectored(cx, slices))?;
        watch.wrote(written);
        Poll::Ready(Ok(written))
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
