//! What each stream has been handed and nobody has read yet.
//!
//! The multiplexer keeps every frame in an allocation of its own until it is read, whatever the frame's size. So
//! frames are counted here, from below ([`super::sieve`]) as they come and from above as their bytes are read, and what
//! comes beyond [`MAX_UNREAD`] is held back in pieces until the rest was read. It must never hold more of a stream than
//! the window that the other side was given, and never give up a byte that somebody can still read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use crate::limits::MAX_UNREAD;

/// The most bytes in one piece of what is held back. A piece grows as it fills: no memory for bytes that never come.
const PIECE: usize = 16 * 1024;

/// The window that a stream begins with, in each direction.
const FIRST_WINDOW: u64 = yamux::DEFAULT_CREDIT as u64;
/// The multiplexer gives credit for half a window at a time, once so much has come: an update for less, or after less,
/// brings nothing.
pub(super) const LEAST_CREDIT: u64 = FIRST_WINDOW / 2;

/// The backlogs of one connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlogs(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    streams: HashMap<u32, Backlog>,
    /// Streams of which all was read while something is held back.
    drained: VecDeque<u32>,
    /// Whoever moves the connection.
    driver: Option<Waker>,
}

#[derive(Debug)]
struct Backlog {
    /// What the other side may still send.
    window: u64,
    /// Bytes that were sent to it and that no update of its window was for.
    sent: u64,
    /// Frames with bytes that the multiplexer was handed since all was read the last time.
    frames: usize,
    /// Bytes that it was handed and that were not read.
    unread: u64,
    held: VecDeque<Vec<u8>>,
    /// The other side has ended its direction.
    ended: bool,
    /// It has, behind what is held back.
    end_is_held: bool,
    /// It has taken the stream back.
    reset: bool,
}

/// What is to be done with a frame of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// The multiplexer gets it.
    Through,
    /// It is held back.
    Hold,
    /// It tells nobody anything: its stream is over, at one end or the other.
    Discard,
}

/// How the other side has broken the rules of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Breach(pub(super) &'static str);

/// The upper end of one stream's backlog. Dropping it lets go of what is held back, and of what comes later.
#[derive(Debug)]
pub(super) struct Reader {
    backlogs: Backlogs,
    stream: u32,
}

impl Backlogs {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reader of a stream; a stream that this side opens begins to exist here.
    pub(super) fn reader(&self, stream: u32) -> Reader {
        self.lock().streams.entry(stream).or_default();
        Reader {
            backlogs: self.clone(),
            stream,
        }
    }

    /// Takes in a stream that the other side opens.
    pub(super) fn open(&self, stream: u32) -> Result<(), Breach> {
        let mut inner = self.lock();
        if inner.streams.contains_key(&stream) {
            return Err(Breach("a stream was opened twice"));
        }
        inner.streams.insert(stream, Backlog::default());
        Ok(())
    }

    /// Notes that so many bytes were sent.
    pub(super) fn sent(&self, stream: u32, bytes: u32) {
        if let Some(backlog) = self.lock().streams.get_mut(&stream) {
            backlog.sent = backlog.sent.saturating_add(u64::from(bytes));
        }
    }

    /// Whether an update of the other side's window is due: so much was sent since the last one.
    pub(super) fn earns_credit(&self, stream: u32) -> bool {
        let mut inner = self.lock();
        let backlog = inner.streams.get_mut(&stream);
        let Some((backlog, left)) =
            backlog.and_then(|it| it.sent.checked_sub(LEAST_CREDIT).map(|left| (it, left)))
        else {
            return false;
        };
        backlog.sent = left;
        true
    }

    /// Judges a frame of `length` bytes, which ends its direction of the stream or not.
    pub(super) fn frame(&self, stream: u32, length: usize, ends: bool) -> Result<Passage, Breach> {
        let mut inner = self.lock();
        let Some(backlog) = inner.streams.get_mut(&stream) else {
            return Ok(Passage::Discard);
        };
        if backlog.ended && length > 0 {
            return Err(Breach("bytes after the end of their stream"));
        }
        if backlog.ended {
            return Ok(Passage::Discard);
        }
        let bytes = u64::try_from(length).unwrap_or(u64::MAX);
        backlog.window = backlog
            .window
            .checked_sub(bytes)
            .ok_or(Breach("more bytes than the window of the stream"))?;
        backlog.ended = ends;
        let full = backlog.frames >= MAX_UNREAD && length > 0;
        if full || !backlog.held.is_empty() {
            backlog.end_is_held = ends;
            return Ok(Passage::Hold);
        }
        if length > 0 {
            backlog.frames += 1;
            backlog.unread += bytes;
        }
        Ok(Passage::Through)
    }

    /// Takes bytes of a frame that is to be held back, if somebody may still read them.
    pub(super) fn hold(&self, stream: u32, mut bytes: &[u8]) {
        let mut inner = self.lock();
        let Inner {
            streams, drained, ..
        } = &mut *inner;
        let Some(backlog) = streams.get_mut(&stream) else {
            return;
        };
        while !bytes.is_empty() {
            let room = backlog.held.back().map_or(0, |last| PIECE - last.len());
            if room == 0 {
                backlog.held.push_back(Vec::new());
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some(last) = backlog.held.back_mut() {
                last.extend_from_slice(now);
            }
            bytes = later;
        }
        // All was read while the frame was still on its way.
        if backlog.unread == 0 {
            drained.push_back(stream);
        }
    }

    /// The next piece that can be handed on: its stream, its bytes, and whether the stream ends with it.
    pub(super) fn release(&self) -> Option<(u32, Vec<u8>, bool)> {
        let mut inner = self.lock();
        while let Some(stream) = inner.drained.front().copied() {
            if let Some(backlog) = inner.streams.get_mut(&stream)
                && let Some(piece) = backlog.held.pop_front()
            {
                backlog.frames += 1;
                backlog.unread += u64::try_from(piece.len()).unwrap_or(u64::MAX);
                let ends = backlog.held.is_empty() && backlog.end_is_held;
                return Some((stream, piece, ends));
            }
            inner.drained.pop_front();
        }
        None
    }

    /// Lets go of what is held back of a stream that was reset; whether there is such a stream, and it was the first time.
    pub(super) fn reset(&self, stream: u32) -> bool {
        let mut inner = self.lock();
        let Some(backlog) = inner.streams.get_mut(&stream) else {
            return false;
        };
        backlog.held = VecDeque::new();
        backlog.ended = true;
        !std::mem::replace(&mut backlog.reset, true)
    }

    /// Notes that the other side was allowed to send more.
    pub(super) fn grant(&self, stream: u32, bytes: u32) {
        if let Some(backlog) = self.lock().streams.get_mut(&stream) {
            backlog.window += u64::from(bytes);
        }
    }

    /// Has the driver woken when something can be released; `false` if something can now.
    pub(super) fn wake_later(&self, context: &Context<'_>) -> bool {
        let mut inner = self.lock();
        let waker = context.waker();
        if !inner
            .driver
            .as_ref()
            .is_some_and(|old| old.will_wake(waker))
        {
            inner.driver = Some(waker.clone());
        }
        inner.drained.is_empty()
    }

    /// Bytes that are held back, with what they take, in all.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let inner = self.lock();
        let pieces = inner.streams.values().flat_map(|backlog| &backlog.held);
        pieces.map(Vec::capacity).sum()
    }

    /// Frames that the multiplexer was handed and that may not have been read, in all.
    #[cfg(test)]
    pub(super) fn frames(&self) -> usize {
        let inner = self.lock();
        inner.streams.values().map(|backlog| backlog.frames).sum()
    }
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            window: FIRST_WINDOW,
            sent: 0,
            frames: 0,
            unread: 0,
            held: VecDeque::new(),
            ended: false,
            end_is_held: false,
            reset: false,
        }
    }
}

impl Reader {
    /// Notes that so many bytes were read.
    pub(super) fn took(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let driver = {
            let mut inner = self.backlogs.lock();
            let Inner {
                streams,
                drained,
                driver,
            } = &mut *inner;
            let Some(backlog) = streams.get_mut(&self.stream) else {
                return;
            };
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            backlog.unread = backlog.unread.saturating_sub(bytes);
            if backlog.unread > 0 {
                return;
            }
            backlog.frames = 0;
            if backlog.held.is_empty() {
                return;
            }
            drained.push_back(self.stream);
            driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.backlogs.lock().streams.remove(&self.stream);
    }
}
