//! What lets a server of HTTP read nothing but requests whose heads were vetted.
//!
//! Not a byte of a head passes before the whole of it was read and allowed by [`Head::parse_request`], and the next head
//! begins exactly where the body ends that the one before announced.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::{Head, Length, end, first_line};
use crate::{
    egress::watched::{Watch, Watched},
    policy::EgressDenial,
};

/// How much is read at once, in bytes.
const READ: usize = 16 * 1024;

/// Lets through nothing but requests whose heads were vetted. After a refusal reads fail, and [`Verdict::refusal`] says
/// why; nothing of the refused head was let through.
pub(crate) type Guard<T> = Watched<T, Heads>;

/// The heads that come, and what follows them.
#[derive(Debug)]
pub(crate) struct Heads {
    /// Read and not yet let through.
    pending: BytesMut,
    /// How far `pending` was searched for the end of a head.
    searched: usize,
    /// How much may pass before the next head is vetted.
    free: Free,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug)]
enum Free {
    /// This many bytes: the rest of a head and its body.
    Bytes(u64),
    /// Everything: the connection ends with the answer to this request.
    Rest,
}

/// What became of the heads so far; to be kept while a server of HTTP has the guard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<State>);

#[derive(Debug, Default)]
struct State {
    refusal: OnceLock<EgressDenial>,
    must_close: AtomicBool,
}

impl Verdict {
    /// Why reads fail.
    pub(crate) fn refusal(&self) -> Option<EgressDenial> {
        self.0.refusal.get().copied()
    }

    /// Whether the connection has to end with the answer to the request that is being read: what follows its body is
    /// not vetted, since only the server finds the end of chunks.
    pub(crate) fn must_close(&self) -> bool {
        self.0.must_close.load(Ordering::Acquire)
    }
}

impl<T> Guard<T> {
    pub(crate) fn new(io: T) -> Self {
        let watch = Heads {
            pending: BytesMut::new(),
            searched: 0,
            free: Free::Bytes(0),
            verdict: Verdict::default(),
        };
        Self { io, watch }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.watch.verdict.clone()
    }

    /// The first line of a refused head, of which nothing was let through.
    pub(crate) fn refused_line(&self) -> &[u8] {
        first_line(&self.watch.pending)
    }

    /// The stream, to write an answer to a refused head.
    pub(crate) fn into_inner(self) -> T {
        self.io
    }
}

impl Heads {
    /// Vets the head at the beginning of `pending`, if it is whole.
    fn vet(&mut self) -> Result<(), EgressDenial> {
        let Some(end) = end(&self.pending, self.searched)? else {
            self.searched = self.pending.len();
            return Ok(());
        };
        self.searched = 0;
        self.free = match Head::parse_request(&self.pending[..end])?.length {
            None => Free::Bytes(end as u64),
            Some(Length::Bytes(body)) => Free::Bytes(
                body.checked_add(end as u64)
                    .ok_or(EgressDenial::AmbiguousLength)?,
            ),
            Some(Length::Chunked) => {
                self.verdict.0.must_close.store(true, Ordering::Release);
                Free::Rest
            }
        };
        Ok(())
    }

    /// Lets through what may pass of `pending`.
    fn pass(&mut self, buf: &mut ReadBuf<'_>) -> usize {
        let wanted = self.pending.len().min(buf.remaining());
        let passed = match &mut self.free {
            Free::Rest => wanted,
            Free::Bytes(free) => {
                let passed = usize::try_from(*free).map_or(wanted, |free| free.min(wanted));
                *free -= passed as u64;
                passed
            }
        };
        buf.put_slice(&self.pending[..passed]);
        self.pending.advance(passed);
        passed
    }
}

impl Watch for Heads {
    fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(denial) = self.verdict.refusal() {
                return Poll::Ready(Err(io::Error::other(denial)));
            }
            if buf.remaining() == 0 || self.pass(buf) > 0 {
                return Poll::Ready(Ok(()));
            }
            if matches!(self.free, Free::Bytes(0)) && self.pending.len() > self.searched {
                if let Err(denial) = self.vet() {
                    let _ = self.verdict.0.refusal.set(denial);
                }
                continue;
            }
            self.pending.reserve(READ);
            let read = ready!(poll_read_buf(Pin::new(io), cx, &mut self.pending))?;
            // The end, be it within a head: nothing of that passes.
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x.org\r\n\r\n";
    const POST: &[u8] = b"POST /b HTTP/1.1\r\nHost: x.org\r\nContent-Length: 4\r\n\r\nGET ";
    const CHUNKED: &[u8] =
        b"PUT /c HTTP/1.1\r\nHost: x.org\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    const SMUGGLED: &[u8] =
        b"POST / HTTP/1.1\r\nHost: x.org\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

    /// What passes of `bytes`, given to the guard `step` bytes at a time, and its verdict.
    async fn through(bytes: &[u8], step: usize) -> (Vec<u8>, Verdict) {
        let (mut near, far) = tokio::io::duplex(step);
        let mut guard = Guard::new(far);
        let verdict = guard.verdict();
        let mut passed = Vec::new();
        let write = async move {
            // Fails where the guard was dropped after a refusal.
            let _ = near.write_all(bytes).await;
        };
        let read = async {
            let mut buf = [0; 7];
            while let Ok(n @ 1..) = guard.read(&mut buf).await {
                passed.extend_from_slice(&buf[..n]);
            }
            drop(guard);
        };
        tokio::join!(write, read);
        (passed, verdict)
    }

    #[tokio::test]
    async fn requests_with_right_heads_pass_unchanged_however_they_arrive() {
        let bytes = [GET, POST, GET, GET, CHUNKED].concat();
        for step in [1, 2, 3, 16, 1 << 16] {
            let (passed, verdict) = through(&bytes, step).await;
            assert_eq!(passed, bytes);
            assert_eq!(verdict.refusal(), None);
        }
    }

    #[tokio::test]
    async fn of_a_refused_head_nothing_passes_and_what_was_before_does() {
        let bytes = [GET, POST, SMUGGLED, GET].concat();
        for step in [1, 5, 1 << 16] {
            let (passed, verdict) = through(&bytes, step).await;
            assert_eq!(passed, [GET, POST].concat());
            assert_eq!(verdict.refusal(), Some(EgressDenial::AmbiguousLength));
        }
    }

    #[tokio::test]
    async fn the_next_head_begins_where_the_announced_body_ends() {
        // Four bytes of a body, and then what would be a request to whoever counts otherwise.
        let bytes = [POST, b"\r\n", GET].concat();
        let (passed, verdict) = through(&bytes, 64).await;
        assert_eq!(passed, POST);
        assert_eq!(verdict.refusal(), Some(EgressDenial::MalformedHead));
    }

    #[tokio::test]
    async fn after_chunks_the_connection_must_close() {
        let (_, verdict) = through(&[GET, POST].concat(), 64).await;
        assert!(!verdict.must_close());
        let (_, verdict) = through(&[GET, CHUNKED].concat(), 64).await;
        assert!(verdict.must_close());
    }

    #[tokio::test]
    async fn of_a_head_without_an_end_nothing_passes() {
        let (passed, verdict) = through(&GET[..GET.len() - 1], 64).await;
        assert_eq!(passed, b"");
        assert_eq!(verdict.refusal(), None);
    }
}
