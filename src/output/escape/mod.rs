//! Raw bytes become text that is safe to show: short, cut on characters, with nothing hidden in it.
//!
//! No control character but line feed and tab, no invisible or bidirectional character and no invalid
//! UTF-8 may leave raw. A carriage return is a control like the others, also before a line feed: it is
//! shown as `\r`, since on a terminal it overwrites what a person has just read, and since whoever looks
//! for a stray one must see it. A backslash of the program's own is not doubled (code stays readable);
//! where that matters, the raw stream is kept.

#[cfg(any(test, fuzzing))]
mod reference;

use std::fmt::Write as _;

use super::window::Window;
use crate::types::visible;

#[cfg(any(test, fuzzing))]
pub(crate) use reference::reference;

/// The most text shown of one stream, in bytes after escaping, with the line about what is omitted.
/// More would push the conversation itself out of a model's context.
pub const SHOWN_BYTES: usize = 16 * 1024;
/// Kept free for the line that tells what is omitted, and the line feeds around it.
const OMISSION_ROOM: usize = 64;

/// A stream as text. Only this module makes one, so whoever holds one knows that it is escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    head: String,
    tail: Option<String>,
    bytes: u64,
    omitted: u64,
    escaped: u64,
}

impl Shown {
    /// The start of the stream; all of it unless [`Self::truncated`].
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The end of the stream, where something before it is omitted.
    #[must_use]
    pub fn tail(&self) -> Option<&str> {
        self.tail.as_deref()
    }

    /// Raw bytes of the whole stream.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Raw bytes that are not shown.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.omitted
    }

    /// Whether something is not shown.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.tail.is_some()
    }

    /// How many characters and invalid bytes of what is shown were replaced by visible escapes.
    #[must_use]
    pub fn escaped(&self) -> u64 {
        self.escaped
    }

    /// Whether the text is exactly the stream; if not, the raw stream is worth keeping.
    #[must_use]
    pub fn is_faithful(&self) -> bool {
        !self.truncated() && self.escaped == 0
    }

    /// Whether the stream was empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The text, with a line of its own where something is omitted.
    #[must_use]
    pub fn text(&self) -> String {
        self.render(None)
    }

    /// As [`Self::text`], with the fence's token in the line about the omission: code inside can print
    /// such a line too, but cannot know the token.
    pub(super) fn render(&self, token: Option<&str>) -> String {
        let mut text = self.head.clone();
        if let Some(tail) = &self.tail {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            let _ = write!(text, "[belljar: {} bytes omitted", self.omitted);
            if let Some(token) = token {
                let _ = write!(text, " {token}");
            }
            text.push_str("]\n");
            text.push_str(tail);
        }
        text
    }
}

/// Shows head and tail of a stream in at most `limit` bytes of text.
#[must_use]
pub fn show(window: &Window, limit: usize) -> Shown {
    if window.omitted() == 0 {
        return show_bytes(&[window.head(), window.tail()].concat(), limit);
    }
    cut(
        Side::torn(window.head()),
        Side::torn(window.tail()),
        window.bytes(),
        limit,
    )
}

/// Shows bytes that are all at hand in at most `limit` bytes of text.
#[must_use]
pub fn show_bytes(bytes: &[u8], limit: usize) -> Shown {
    // An escape is never shorter than what it stands for, so longer input cannot fit.
    if bytes.len() <= limit {
        let whole = Prefix::take(bytes, limit);
        if whole.raw == bytes.len() {
            return Shown {
                head: whole.text,
                tail: None,
                bytes: bytes.len() as u64,
                omitted: 0,
                escaped: whole.escaped,
            };
        }
    }
    cut(
        Side::whole(bytes),
        Side::whole(bytes),
        bytes.len() as u64,
        limit,
    )
}

/// A piece of a longer content without the character that its end tears, for who shows content piece by piece:
/// what is left off, at most 3 bytes, begins the next piece. The last piece is shown as it is.
#[must_use]
pub fn whole_characters(piece: &[u8]) -> &[u8] {
    &piece[..piece.len() - torn_end(piece)]
}

/// One kept end of a stream.
#[derive(Clone, Copy)]
struct Side<'a> {
    bytes: &'a [u8],
    /// Whether the edge towards the middle is a cut, which may have torn a character.
    torn: bool,
}

impl<'a> Side<'a> {
    fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, torn: false }
    }

    fn torn(bytes: &'a [u8]) -> Self {
        Self { bytes, torn: true }
    }

    /// At most the first `budget` bytes, without a character torn at their end. What is left off could not
    /// have been shown: it is longer in text than the room that is left.
    fn first(self, budget: usize) -> &'a [u8] {
        let kept = &self.bytes[..self.bytes.len().min(budget)];
        if self.torn || kept.len() < self.bytes.len() {
            &kept[..kept.len() - torn_end(kept)]
        } else {
            kept
        }
    }

    /// At most the last `budget` bytes, without a character torn at their start.
    fn last(self, budget: usize) -> &'a [u8] {
        let kept = &self.bytes[self.bytes.len().saturating_sub(budget)..];
        if self.torn || kept.len() < self.bytes.len() {
            &kept[torn_start(kept)..]
        } else {
            kept
        }
    }
}

/// Bytes at the end that begin a character and do not finish it: 0 to 3.
fn torn_end(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|back| {
            let end = &bytes[bytes.len() - back..];
            end[0] >= 0xc0 && std::str::from_utf8(end).is_err_and(|e| e.error_len().is_none())
        })
        .unwrap_or(0)
}

/// Bytes at the start that only continue a character: 0 to 3.
fn torn_start(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|&&byte| byte & 0xc0 == 0x80)
        .count()
}

fn cut(first: Side<'_>, last: Side<'_>, bytes: u64, limit: usize) -> Shown {
    let room = limit.saturating_sub(OMISSION_ROOM);
    let head_room = room / 2;
    let tail_room = room - head_room;
    let head = Prefix::take(first.first(head_room), head_room);
    let tail = Suffix::take(last.last(tail_room), tail_room);
    Shown {
        head: head.text,
        tail: Some(tail.text),
        bytes,
        omitted: bytes - (head.raw + tail.raw) as u64,
        escaped: head.escaped + tail.escaped,
    }
}

/// A character, or a byte that is part of none.
enum Unit {
    Char(char),
    Byte(u8),
}

impl Unit {
    fn raw_len(&self) -> usize {
        match self {
            Self::Char(c) => c.len_utf8(),
            Self::Byte(_) => 1,
        }
    }

    /// Appends the visible form and says whether it differs from the raw one.
    fn push(&self, out: &mut String) -> bool {
        match *self {
            Self::Char(c) if visible::is_forbidden(c) => visible::push_escaped(out, c),
            Self::Char(c) => {
                out.push(c);
                return false;
            }
            Self::Byte(byte) => visible::push_escaped_byte(out, byte),
        }
        true
    }
}

fn units(bytes: &[u8]) -> impl Iterator<Item = Unit> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(Unit::Char);
        valid.chain(chunk.invalid().iter().copied().map(Unit::Byte))
    })
}

/// The longest start of some bytes whose text fits.
struct Prefix {
    text: String,
    raw: usize,
    escaped: u64,
}

impl Prefix {
    fn take(bytes: &[u8], budget: usize) -> Self {
        let mut text = String::with_capacity(bytes.len().min(budget));
        let (mut raw, mut escaped) = (0, 0);
        for unit in units(bytes) {
            let before = text.len();
            let changed = unit.push(&mut text);
            if text.len() > budget {
                text.truncate(before);
                break;
            }
            raw += unit.raw_len();
            escaped += u64::from(changed);
        }
        Self { text, raw, escaped }
    }
}

/// The longest end of some bytes whose text fits.
struct Suffix {
    text: String,
    raw: usize,
    escaped: u64,
}

impl Suffix {
    fn take(bytes: &[u8], budget: usize) -> Self {
        let mut scratch = String::new();
        let mut length = |unit: &Unit| {
            scratch.clear();
            unit.push(&mut scratch);
            scratch.len()
        };
        let mut too_much: usize = units(bytes).map(|unit| length(&unit)).sum();
        let mut suffix = Self {
            text: String::with_capacity(budget.min(too_much)),
            raw: 0,
            escaped: 0,
        };
        for unit in units(bytes) {
            if too_much > budget {
                too_much -= length(&unit);
                continue;
            }
            suffix.escaped += u64::from(unit.push(&mut suffix.text));
            suffix.raw += unit.raw_len();
        }
        suffix
    }
}

#[cfg(test)]
mod tests;
