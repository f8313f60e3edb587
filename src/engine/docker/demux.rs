//! Takes apart the one stream in which the daemon sends a container's standard output and error.
//!
//! Each piece comes behind eight bytes: which stream it belongs to, three zeros, and its length. Pieces are handed on
//! as they come and never gathered whole, so that a length costs no memory, whatever it claims. What is no such
//! header ends the stream with an error: nothing may be guessed about where the next one is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use crate::engine::daemon::Log;

/// Bytes before each piece.
const HEADER: usize = 8;
/// What one read from the daemon may bring at first. Small: hundreds of sandboxes may wait with nothing to say.
const FIRST_BUFFER: usize = 8 * 1024;
/// What one read may bring once reads have been as large as they could be: about what a Unix socket holds, so that a
/// busy stream costs a system call for many pieces. Bounds what one sandbox takes of the server's memory here.
const MAX_BUFFER: usize = 256 * 1024;

/// Which stream a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Stdout,
    Stderr,
    /// An echo of standard input: of no use.
    Stdin,
}

/// What the container writes to its standard output; its standard error goes to the log.
#[derive(Debug)]
pub(crate) struct Demux<R> {
    inner: R,
    buffer: Vec<u8>,
    /// What of the buffer was read and not yet handed on.
    start: usize,
    end: usize,
    piece: Piece,
    /// Bytes of the current piece that are still to come; 0 before a header.
    left: usize,
    log: Log,
}

impl<R: AsyncRead + Unpin> Demux<R> {
    /// `first` is what has been read of the stream already.
    pub(crate) fn new(inner: R, first: &[u8], log: Log) -> Self {
        let mut buffer = first.to_vec();
        buffer.resize(FIRST_BUFFER.max(first.len()), 0);
        Self {
            inner,
            buffer,
            start: 0,
            end: first.len(),
            piece: Piece::Stdout,
            left: 0,
            log,
        }
    }

    /// Hands on what is at hand; `true` if more must be read first.
    fn take(&mut self, out: &mut ReadBuf<'_>) -> io::Result<bool> {
        while out.remaining() > 0 {
            if self.left == 0 && !self.header()? {
                return Ok(true);
            }
            let rest = &self.buffer[self.start..self.end];
            let mut count = rest.len().min(self.left);
            match self.piece {
                Piece::Stdout => {
                    count = count.min(out.remaining());
                    out.put_slice(&rest[..count]);
                }
                Piece::Stderr => self.log.push(&rest[..count]),
                Piece::Stdin => {}
            }
            self.start += count;
            self.left -= count;
            if self.start == self.end && self.left > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Parses the next header; `false` if it is not all there.
    fn header(&mut self) -> io::Result<bool> {
        let rest = &self.buffer[self.start..self.end];
        let Some((header, _)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(false);
        };
        let [kind, 0, 0, 0, length @ ..] = *header else {
            return Err(malformed());
        };
        self.piece = match kind {
            0 => Piece::Stdin,
            1 => Piece::Stdout,
            2 => Piece::Stderr,
            _ => return Err(malformed()),
        };
        self.left = usize::try_from(u32::from_be_bytes(length)).map_err(|_| malformed())?;
        self.start += HEADER;
        Ok(true)
    }

    /// Reads more behind what is left; 0 at the end.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // At most the beginning of a header is left by now.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let mut space = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut space))?;
        let count = space.filled().len();
        self.end += count;
        let size = self.buffer.len();
        if self.end == size && size < MAX_BUFFER {
            self.buffer.resize((2 * size).min(MAX_BUFFER), 0);
        }
        Poll::Ready(Ok(count))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Demux<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = out.filled().len();
        loop {
            let more = this.take(out);
            // What came before a wrong header is handed on first: a read that fails has read nothing. The header is
            // still there for the next one.
            if out.filled().len() > before || !more? {
                return Poll::Ready(Ok(()));
            }
            if ready!(this.poll_fill(context))? == 0 {
                return Poll::Ready(if this.left == 0 && this.end == 0 {
                    Ok(())
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                });
            }
        }
    }
}

/// A terminal's stream has no headers, and neither has whatever is not Docker.
fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the daemon does not tell the streams apart",
    )
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, stream};
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;
    use tokio_util::io::StreamReader;

    use super::*;

    fn piece(kind: u8, length: usize, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(length).unwrap().to_be_bytes();
        [&[kind, 0, 0, 0][..], &length, bytes].concat()
    }

    /// Reads everything in steps of at most `step` bytes, of a stream that comes in these parts.
    fn read(first: &[u8], parts: Vec<Vec<u8>>, step: usize) -> (Vec<u8>, io::Result<usize>, Log) {
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let inner = StreamReader::new(stream::iter(
            parts.map(|part| Ok::<_, io::Error>(std::io::Cursor::new(part))),
        ));
        let log = Log::default();
        let mut demux = Demux::new(inner, first, log.clone());
        let mut whole = Vec::new();
        let mut buffer = vec![0; step];
        loop {
            match demux.read(&mut buffer).now_or_never().unwrap() {
                Ok(count) if count > 0 => whole.extend_from_slice(&buffer[..count]),
                end => return (whole, end, log),
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_are_told_apart_wherever_reads_cut_them(
            pieces in proptest::collection::vec((0_u8..3, proptest::collection::vec(any::<u8>(), 0..50)), 0..20),
            cuts in proptest::collection::vec(0_usize..1000, 0..40),
            step in 1_usize..100,
            ahead in any::<bool>(),
        ) {
            let mut stream = Vec::new();
            let mut stdout = Vec::new();
            let expected = Log::default();
            for (kind, bytes) in &pieces {
                stream.extend(piece(*kind, bytes.len(), bytes));
                match kind {
                    1 => stdout.extend_from_slice(bytes),
                    2 => expected.push(bytes),
                    _ => {}
                }
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let mut parts: Vec<Vec<u8>> = cuts.windows(2).map(|cut| stream[cut[0]..cut[1]].to_vec()).collect();
            let first = if ahead { parts.remove(0) } else { Vec::new() };
            let (whole, end, log) = read(&first, parts, step);
            prop_assert_eq!(whole, stdout);
            prop_assert!(matches!(end, Ok(0)));
            prop_assert_eq!(log.quoted(), expected.quoted());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..8),
        ) {
            let _ = read(&[], parts, 16);
        }
    }

    #[test]
    fn a_piece_larger_than_the_buffer_comes_whole() {
        let bytes: Vec<u8> = (0..=250).cycle().take(5 * MAX_BUFFER + 5).collect();
        let (whole, end, _) = read(&[], vec![piece(1, bytes.len(), &bytes)], 1000);
        assert!(whole == bytes && matches!(end, Ok(0)));
    }

    #[test]
    fn a_stream_that_ends_inside_a_piece_or_a_header_is_cut_short() {
        for cut in [piece(1, 6, b"hello"), piece(2, 6, b""), vec![1, 0, 0]] {
            let (_, end, _) = read(&[], vec![cut], 100);
            assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn what_is_no_header_ends_the_stream_after_what_came_before() {
        for wrong in [
            &b"plain text"[..],
            &[3, 0, 0, 0, 0, 0, 0, 1, b'x'],
            &[1, 1, 0, 0, 0, 0, 0, 1, b'x'],
        ] {
            let whole = [&piece(1, 2, b"ok"), wrong].concat();
            for (parts, step) in [
                (vec![piece(1, 2, b"ok"), wrong.to_vec()], 1),
                (vec![whole], 100),
            ] {
                let (whole, end, _) = read(&[], parts, step);
                assert_eq!(whole, b"ok", "{step} at a time");
                assert_eq!(end.unwrap_err().kind(), io::ErrorKind::InvalidData);
            }
        }
    }
}
