//! What the client writes, line by line.
//!
//! A line longer than the bound is skipped while it passes; it must never be held.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::{
    super::message::{Echo, Scan},
    ahead::Ahead,
};
use crate::policy::{
    MAX_CODE_BYTES, MAX_FILES, MAX_INLINE_BYTES, MAX_STDIN_BYTES, MAX_STRINGS_BYTES,
};
use crate::types::MAX_PATH_BYTES;

/// What one byte may take in JSON: `\u0000`.
const ESCAPED_BYTES: usize = 6;
/// What a call has beside the arguments that the policy bounds.
const SLACK_BYTES: usize = 1024 * 1024;
/// The longest line, in bytes without its end: the largest call that the policy allows, each byte of it escaped. Stops
/// a client that never ends its line from filling the memory.
pub const MAX_LINE_BYTES: usize = ESCAPED_BYTES
    * (MAX_CODE_BYTES
        + MAX_STDIN_BYTES
        + MAX_STRINGS_BYTES
        + MAX_STRINGS_BYTES
        + MAX_INLINE_BYTES
        + MAX_FILES * MAX_PATH_BYTES)
    + SLACK_BYTES;
/// What is read at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// The memory that is kept from one line for the next.
const KEPT_BYTES: usize = 1024 * 1024;

/// One line.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// All of it, without its end.
    Whole(&'a [u8]),
    /// It is too long. All of it has passed, and this is its id.
    TooLong(Echo),
}

/// The lines of an input.
pub(super) struct Lines<R> {
    input: BufReader<Ahead<R>>,
    most: usize,
    held: Vec<u8>,
    /// The line in `held` was handed out.
    used: bool,
    /// Of a line that is too long: what of it has passed.
    skipped: Option<Scan>,
}

/// What a piece of the input was.
enum Step {
    More,
    Whole,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The lines of `input`, each of at most `most` bytes.
    pub(super) fn new(input: R, most: usize) -> Self {
        Self {
            input: BufReader::with_capacity(CHUNK_BYTES, Ahead::new(input)),
            most,
            held: Vec::new(),
            used: false,
            skipped: None,
        }
    }

    /// Reads ahead while nobody may be listened to, so that the end of the input is seen. Resolves at that end, and else
    /// never. Whoever drops this future loses nothing.
    pub(super) async fn end(&mut self) {
        self.input.get_mut().end().await;
    }

    /// The next line; none at the end. Whoever drops this future loses nothing: the next call goes on.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if self.used {
            self.used = false;
            self.held.clear();
            self.held.shrink_to(KEPT_BYTES);
        }
        loop {
            let chunk = self.input.fill_buf().await?;
            let (taken, step) = if chunk.is_empty() {
                // What was left without an end is read as a line: a message that was cut off is none.
                let left = !self.held.is_empty();
                let step = match &self.skipped {
                    Some(_) => Step::TooLong,
                    None if left => Step::Whole,
                    None => Step::End,
                };
                (0, step)
            } else {
                let end = chunk.iter().position(|byte| *byte == b'\n');
                let piece = &chunk[..end.unwrap_or(chunk.len())];
                let fits = self.held.len() + piece.len() <= self.most;
                match &mut self.skipped {
                    Some(scan) => scan.read(piece),
                    None if fits => self.held.extend_from_slice(piece),
                    None => {
                        let mut scan = Scan::default();
                        scan.read(&self.held);
                        scan.read(piece);
                        self.held = Vec::new();
                        self.skipped = Some(scan);
                    }
                }
                let step = match (end, &self.skipped) {
                    (None, _) => Step::More,
                    (Some(_), None) => Step::Whole,
                    (Some(_), Some(_)) => Step::TooLong,
                };
                (piece.len() + usize::from(end.is_some()), step)
            };
            self.input.consume(taken);
            match step {
                Step::More => {}
                Step::Whole => {
                    self.used = true;
                    return Ok(Some(Line::Whole(&self.held)));
                }
                Step::TooLong => {
                    let id = self.skipped.take().map_or_else(Echo::none, Scan::id);
                    return Ok(Some(Line::TooLong(id)));
                }
                Step::End => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn long_lines_are_skipped_and_their_neighbours_are_not() {
        let long = format!("{{\"x\":\"{}\",\"id\":7}}", "x".repeat(200_000));
        let text = format!("first\n{long}\n\nlast\r\n{long}");
        let mut lines = Lines::new(text.as_bytes(), 100);
        let mut seen: Vec<Value> = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(match line {
                Line::Whole(bytes) => json!(String::from_utf8(bytes.to_vec()).unwrap()),
                Line::TooLong(id) => id.into(),
            });
            assert!(lines.held.capacity() <= 256, "a long line is not held");
        }
        assert_eq!(
            seen,
            [
                json!("first"),
                json!(7),
                json!(""),
                json!("last\r"),
                json!(7)
            ]
        );
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_bound_is_whole() {
        for (length, whole) in [(99, true), (100, true), (101, false)] {
            let text = "x".repeat(length) + "\n";
            let mut lines = Lines::new(text.as_bytes(), 100);
            let line = lines.next().await.unwrap().unwrap();
            assert_eq!(matches!(line, Line::Whole(_)), whole, "{length}");
        }
    }

    #[tokio::test]
    async fn a_read_that_is_given_up_loses_nothing() {
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let mut lines = Lines::new(theirs, 1024);
        for piece in ["{\"a\"", ":", "1}"] {
            ours.write_all(piece.as_bytes()).await.unwrap();
            assert!(futures_util::FutureExt::now_or_never(lines.next()).is_none());
        }
        ours.write_all(b"\n").await.unwrap();
        let line = lines.next().await.unwrap();
        assert_eq!(line, Some(Line::Whole(b"{\"a\":1}")));
    }

    #[test]
    fn the_largest_call_fits_with_every_byte_escaped() {
        let arguments = MAX_CODE_BYTES + MAX_STDIN_BYTES + MAX_INLINE_BYTES;
        assert!(MAX_LINE_BYTES > 6 * arguments);
        const { assert!(MAX_LINE_BYTES < 160 << 20, "and no more than is needed") };
    }

    proptest! {
        #[test]
        fn the_lines_are_those_of_the_text(text in "[a\n\r]{0,60}", most in 0_usize..9) {
            let expected: Vec<Value> = text
                .split_terminator('\n')
                .map(|line| if line.len() > most { Value::Null } else { line.into() })
                .collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let seen = runtime.block_on(async {
                let mut lines = Lines::new(text.as_bytes(), most);
                let mut seen: Vec<Value> = Vec::new();
                while let Some(line) = lines.next().await.unwrap() {
                    seen.push(match line {
                        Line::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap().into(),
                        Line::TooLong(id) => id.into(),
                    });
                }
                seen
            });
            prop_assert_eq!(seen, expected);
        }
    }
}
