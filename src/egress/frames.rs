//! Frames of HTTP/2 from inside, counted as they pass to the HTTP library.
//!
//! The library answers pings and settings and reads resets, updates and empty pieces for as long as they come, and no
//! request, hence no budget, is behind them. Here they are held to a bound. Nothing is changed, and nothing but the
//! nine bytes before each frame is looked at: what frames mean is the library's to say.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::Instant,
};

use super::watched::{Watch, Watched};
use crate::policy::EgressDenial;

/// Frames that ask for nothing that a connection may send at once. Stops a program from keeping a processor of the
/// server busy without a request: some 4 microseconds a frame, so that this is less than a twentieth of a second.
const CONTROL_FRAMES: u32 = 10_000;
/// The same per second besides.
const CONTROL_FRAMES_PER_SECOND: u32 = 1_000;
/// For so many bytes of answers one more may come: clients make room for what they have taken.
const BYTES_PER_FRAME: usize = 4 * 1024;
/// A frame that asks for nothing counts once more for so many of its bytes: each setting has six.
const COSTLY_BYTES: u32 = 64;
/// What a request adds: the end of its body and its reset are frames of their own.
const FRAMES_OF_REQUEST: u32 = 2;

/// The connection's first bytes (RFC 9113, 3.4), and those before each frame.
const PREFACE: usize = 24;
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PADDED: u8 = 8;

/// A connection of HTTP/2, of which the frames from inside are counted.
pub(super) type Frames<T> = Watched<T, Count>;

/// How far the count has come.
#[derive(Debug)]
pub(super) struct Count {
    header: [u8; HEADER],
    read: usize,
    /// Bytes until the next header.
    skip: usize,
    allowance: Allowance,
    /// Bytes of answers that have not earned a frame yet.
    written: usize,
    flooded: Flooded,
}

/// Whether a connection was ended because of its frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Flooded(Arc<AtomicBool>);

impl Flooded {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many frames that ask for nothing may still come.
#[derive(Debug)]
struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    fn earn(&mut self, frames: u32) {
        self.left = self.left.saturating_add(frames).min(CONTROL_FRAMES);
    }

    /// The clock is asked only once nothing is left.
    fn spend(&mut self, frames: u32) -> Result<(), EgressDenial> {
        if self.left < frames {
            let elapsed = self.since.elapsed().min(Duration::from_mins(1));
            let earned = elapsed.as_millis() * u128::from(CONTROL_FRAMES_PER_SECOND) / 1000;
            self.since = Instant::now();
            self.earn(u32::try_from(earned).unwrap_or(u32::MAX));
        }
        self.left = self
            .left
            .checked_sub(frames)
            .ok_or(EgressDenial::TooManyFrames)?;
        Ok(())
    }
}

impl<T> Frames<T> {
    /// `io` begins with the preface.
    pub(super) fn new(io: T) -> Self {
        Self {
            io,
            watch: Count::new(),
        }
    }

    /// Says afterwards why the connection ended.
    pub(super) fn flooded(&self) -> Flooded {
        self.watch.flooded.clone()
    }
}

impl Count {
    fn new() -> Self {
        Self {
            header: [0; HEADER],
            read: 0,
            skip: PREFACE,
            allowance: Allowance {
                left: CONTROL_FRAMES,
                since: Instant::now(),
            },
            written: 0,
            flooded: Flooded::default(),
        }
    }

    fn count(&mut self, mut bytes: &[u8]) -> Result<(), EgressDenial> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (HEADER - self.read).min(bytes.len());
            let (now, later) = bytes.split_at(taken);
            self.header[self.read..self.read + taken].copy_from_slice(now);
            self.read += taken;
            bytes = later;
            if self.read == HEADER {
                self.read = 0;
                self.frame()?;
            }
        }
        Ok(())
    }

    fn frame(&mut self) -> Result<(), EgressDenial> {
        let [l0, l1, l2, kind, flags, ..] = self.header;
        let length = u32::from_be_bytes([0, l0, l1, l2]);
        self.skip = usize::try_from(length).unwrap_or(usize::MAX);
        match kind {
            HEADERS => self.allowance.earn(FRAMES_OF_REQUEST),
            // Padding may be all that is in it.
            DATA if length > 0 && flags & PADDED == 0 => {}
            _ => self.allowance.spend(1 + length / COSTLY_BYTES)?,
        }
        Ok(())
    }
}

impl Watch for Count {
    fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(io).poll_read(cx, buf))?;
        if let Err(denial) = self.count(&buf.filled()[before..]) {
            buf.set_filled(before);
            self.flooded.0.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other(denial)));
        }
        Poll::Ready(Ok(()))
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        let earned = self.written / BYTES_PER_FRAME;
        self.written %= BYTES_PER_FRAME;
        self.allowance
            .earn(u32::try_from(earned).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PING: u8 = 6;
    const SETTINGS: u8 = 4;
    const RST_STREAM: u8 = 3;
    const END_STREAM: u8 = 1;

    fn frame(kind: u8, flags: u8, body: usize) -> Vec<u8> {
        let [_, l0, l1, l2] = u32::try_from(body).unwrap().to_be_bytes();
        let mut bytes = vec![l0, l1, l2, kind, flags, 0, 0, 0, 1];
        bytes.resize(HEADER + body, 7);
        bytes
    }

    /// Counts these bytes behind a preface, in parts of this size.
    fn counted(bytes: &[u8], part: usize) -> Result<(), EgressDenial> {
        let mut frames = Count::new();
        let whole = [&[b'P'; PREFACE], bytes].concat();
        whole.chunks(part).try_for_each(|part| frames.count(part))
    }

    #[test]
    fn frames_that_ask_for_nothing_are_held_to_a_bound_however_they_are_cut() {
        let many = CONTROL_FRAMES as usize;
        let floods = [
            frame(PING, 0, 8),
            frame(SETTINGS, 0, 0),
            frame(RST_STREAM, 0, 4),
            frame(DATA, 0, 0),
            frame(DATA, PADDED, 10),
            frame(200, 0, 1),
        ];
        for flood in floods {
            for part in [1, 7, 16 * 1024] {
                assert_eq!(counted(&flood.repeat(many), part), Ok(()), "{flood:?}");
                // What a slow machine earns meanwhile is less than as much again.
                let beyond = counted(&flood.repeat(100 * many), 64 * 1024);
                assert_eq!(beyond, Err(EgressDenial::TooManyFrames), "{flood:?}");
            }
        }
    }

    #[test]
    fn a_few_huge_settings_count_as_many() {
        let huge = frame(SETTINGS, 0, 16 * 1024);
        assert_eq!(counted(&huge.repeat(30), 1000), Ok(()));
        let beyond = counted(&huge.repeat(2000), 64 * 1024);
        assert_eq!(beyond, Err(EgressDenial::TooManyFrames));
    }

    #[test]
    fn requests_and_their_bodies_are_no_flood() {
        let request = [
            frame(HEADERS, 4, 40),
            frame(DATA, 0, 1),
            frame(DATA, END_STREAM, 0),
        ];
        let many = request.concat().repeat(5 * CONTROL_FRAMES as usize);
        assert_eq!(counted(&many, 4000), Ok(()));
    }

    #[tokio::test]
    async fn a_flood_ends_the_connection_and_answers_make_room_for_more() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut frames = Frames::new(near);
        let flooded = frames.flooded();
        let mut buffer = vec![0; 1 << 20];
        far.write_all(&[b'P'; PREFACE]).await.unwrap();
        let updates = frame(8, 0, 4).repeat(CONTROL_FRAMES as usize);
        for _ in 0..3 {
            far.write_all(&updates).await.unwrap();
            let mut left = updates.len();
            while left > PREFACE {
                left -= frames.read(&mut buffer).await.unwrap().min(left);
            }
            for _ in 0..CONTROL_FRAMES {
                frames.write_all(&[0; BYTES_PER_FRAME]).await.unwrap();
                far.read_exact(&mut buffer[..BYTES_PER_FRAME])
                    .await
                    .unwrap();
            }
        }
        assert!(!flooded.get());
        let mut ended = None;
        for _ in 0..100 {
            far.write_all(&updates).await.unwrap();
            if let Err(error) = frames.read(&mut buffer).await {
                ended = Some(error);
                break;
            }
        }
        let error = ended.expect("the flood is not ended").into_inner().unwrap();
        assert_eq!(
            error.downcast_ref(),
            Some(&EgressDenial::TooManyFrames),
            "{error}"
        );
        assert!(flooded.get());
    }
}
