//! An input that can be looked at past what is wanted of it, to see whether it has ended.
//!
//! What was read ahead is kept and handed out in its order; no more than a bound is ever kept.

use std::{
    future::{pending, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

/// The most bytes that are read ahead. More than a pipe holds: a client that has written all it had, and then closed
/// its end, is seen to have done so though it reads nothing. Stops the others from filling the memory meanwhile.
pub(super) const AHEAD_BYTES: usize = 256 * 1024;
/// What is read at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// An input and what was read of it ahead.
pub(super) struct Ahead<R> {
    input: R,
    kept: Vec<u8>,
    /// What of `kept` was handed out.
    used: usize,
    /// The input has ended, or cannot be read any more.
    ended: Option<io::Result<()>>,
}

impl<R: AsyncRead + Unpin> Ahead<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            kept: Vec::new(),
            used: 0,
            ended: None,
        }
    }

    /// Reads ahead until the input has ended, and then resolves. Where the bound comes first it never does.
    pub(super) async fn end(&mut self) {
        self.kept.drain(..self.used);
        self.used = 0;
        while self.ended.is_none() {
            if self.kept.len() >= AHEAD_BYTES {
                return pending().await;
            }
            poll_fn(|cx| self.poll_more(cx)).await;
        }
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut chunk = [0; CHUNK_BYTES];
        let most = CHUNK_BYTES.min(AHEAD_BYTES - self.kept.len());
        let mut buffer = ReadBuf::new(&mut chunk[..most]);
        let read = ready!(Pin::new(&mut self.input).poll_read(cx, &mut buffer));
        match read {
            Ok(()) if !buffer.filled().is_empty() => self.kept.extend_from_slice(buffer.filled()),
            ended => self.ended = Some(ended),
        }
        Poll::Ready(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Ahead<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let kept = &this.kept[this.used..];
        if !kept.is_empty() {
            let taken = kept.len().min(buffer.remaining());
            buffer.put_slice(&kept[..taken]);
            this.used += taken;
            if this.used == this.kept.len() {
                this.kept = Vec::new();
                this.used = 0;
            }
            return Poll::Ready(Ok(()));
        }
        match this.ended.take() {
            // An end is an end however often it is asked for.
            Some(Ok(())) => {
                this.ended = Some(Ok(()));
                Poll::Ready(Ok(()))
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
            None => Pin::new(&mut this.input).poll_read(cx, buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_was_read_ahead_comes_in_its_order_and_then_the_rest() {
        let (mut ours, theirs) = tokio::io::duplex(4 * AHEAD_BYTES);
        let mut input = Ahead::new(theirs);
        let text: Vec<u8> = (0..=250).cycle().take(3 * AHEAD_BYTES).collect();
        ours.write_all(&text).await.unwrap();
        assert!(input.end().now_or_never().is_none(), "it has not ended");
        assert_eq!(input.kept.len(), AHEAD_BYTES, "no more is kept");
        let mut first = [0; 1000];
        input.read_exact(&mut first).await.unwrap();
        assert_eq!(first, text[..1000]);
        assert!(input.end().now_or_never().is_none());
        drop(ours);
        let mut rest = Vec::new();
        tokio::io::copy(&mut input, &mut rest).await.unwrap();
        assert!(rest == text[1000..]);
        assert_eq!(input.read(&mut first).await.unwrap(), 0, "once more");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_seen_though_nobody_reads_what_is_before_it() {
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let mut input = Ahead::new(theirs);
        let writing = tokio::spawn(async move {
            ours.write_all(&[b'x'; 10_000]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
        });
        input.end().await;
        writing.await.unwrap();
        input.end().await;
        let mut all = String::new();
        input.read_to_string(&mut all).await.unwrap();
        assert_eq!(all.len(), 10_000);
    }
}
