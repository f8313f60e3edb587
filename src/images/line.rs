//! One printed line of a build, made safe to print, and whoever shows it.
//!
//! Package scripts and registries write these lines. Raw, one could move a terminal's cursor and draw a
//! success that was none.

use crate::types::visible;

/// The most characters of a line: a package could print one without end.
const MAX_CHARS: usize = 300;

/// A line without control or invisible characters, of bounded length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(String);

impl Line {
    /// Makes a text safe to print on one line.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut shown = String::new();
        let mut chars = text.trim_end().chars();
        for c in chars.by_ref().take(MAX_CHARS) {
            match c {
                '\t' => shown.push(' '),
                '\n' => visible::push_escaped(&mut shown, c),
                c if visible::is_forbidden(c) => visible::push_escaped(&mut shown, c),
                c => shown.push(c),
            }
        }
        if chars.next().is_some() {
            shown.push('…');
        }
        Self(shown)
    }

    /// The lines of a piece of output, those that are empty left out.
    pub fn split(text: &str) -> impl Iterator<Item = Self> + '_ {
        text.split(['\n', '\r'])
            .filter(|line| !line.trim().is_empty())
            // The classic builder colours what a step writes to standard error.
            .map(|line| Self::new(&line.replace("\u{1b}[91m", "").replace("\u{1b}[0m", "")))
            .filter(|line| !line.0.trim().is_empty())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whoever shows a person how long work goes on.
pub trait Progress: Send + Sync {
    /// A new piece of work begins.
    fn begin(&self, what: &str);
    /// The work that began last printed this.
    fn line(&self, line: &Line);
    /// The work that began last has ended so.
    fn end(&self, how: &str);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn output_falls_into_plain_lines() {
        let lines: Vec<String> =
            Line::split("Get:1\r\n\n\u{1b}[91mE: no\u{1b}[0m\n\u{1b}[2Jfoo\tbar\u{202e}\n")
                .map(|line| line.to_string())
                .collect();
        assert_eq!(lines, ["Get:1", "E: no", "\\x1b[2Jfoo bar\\u{202e}"]);
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = Line::new(&"é".repeat(100_000));
        assert_eq!(line.as_str().chars().count(), MAX_CHARS + 1);
    }

    proptest! {
        #[test]
        fn nothing_forbidden_is_left(text in any::<String>()) {
            for line in Line::split(&text).chain([Line::new(&text)]) {
                prop_assert!(!line.as_str().chars().any(|c| visible::is_forbidden(c) || c == '\n' || c == '\t'));
            }
        }
    }
}
