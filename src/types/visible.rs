//! Visible escapes: what must never reach a reader raw, and what is shown in its place.
//!
//! Control characters steer terminals, bidirectional and invisible ones hide text from the person who
//! looks at it, and tag characters carry text that only a model reads. None of them may leave raw.

/// Whether a character may not be shown as it is. A line feed and a tab are allowed in text; in names
/// they are not, see [`escape_name`].
#[must_use]
pub fn is_forbidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // C0, DEL, C1.
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // Soft hyphen, combining grapheme joiner, Arabic letter mark, Hangul and Khmer fillers.
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
        // Mongolian variation selectors and vowel separator.
        | '\u{180b}'..='\u{180f}'
        // Zero-width characters and directional marks; line and paragraph separators; bidi embeddings.
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        // Word joiner, invisible operators, bidi isolates, deprecated format characters.
        | '\u{2060}'..='\u{206f}'
        // Variation selectors, which carry bytes after any visible character (the other 240 are below).
        | '\u{fe00}'..='\u{fe0f}'
        // Byte order mark, interlinear annotation, and the replacement character, which belljar never makes.
        | '\u{feff}' | '\u{fff0}'..='\u{fffd}'
        // Egyptian, musical and shorthand format characters, and the fillers that draw nothing.
        | '\u{13430}'..='\u{1343f}' | '\u{16fe4}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}'
        // Tags, and all that Unicode keeps for characters that are ignored when shown.
        | '\u{e0000}'..='\u{e0fff}'
        // Private use, where a font decides what is seen, and noncharacters.
        | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        c => (c as u32) & 0xfffe == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&c),
    }
}

/// Appends the visible form of one forbidden character.
pub fn push_escaped(out: &mut String, c: char) {
    use std::fmt::Write as _;
    let code = c as u32;
    // Writing to a `String` cannot fail.
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\t' => write!(out, "\\t"),
        '\r' => write!(out, "\\r"),
        '\\' => write!(out, "\\\\"),
        '\0'..='\x7f' => write!(out, "\\x{code:02x}"),
        _ => write!(out, "\\u{{{code:x}}}"),
    };
}

/// Appends the visible form of one byte that is not UTF-8.
pub fn push_escaped_byte(out: &mut String, byte: u8) {
    use std::fmt::Write as _;
    let _ = write!(out, "\\x{byte:02x}");
}

/// A file name or path from inside, on one line, with every control, invisible and non-UTF-8 part escaped and
/// a backslash doubled, so that [`unescape`] gives exactly the same bytes back.
#[must_use]
pub fn escape_name(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_forbidden(c) || matches!(c, '\n' | '\t' | '\\') {
                push_escaped(&mut out, c);
            } else {
                out.push(c);
            }
        }
        for &byte in chunk.invalid() {
            push_escaped_byte(&mut out, byte);
        }
    }
    out
}

/// The bytes behind an escaped name; `None` where a backslash begins no escape of ours.
#[must_use]
pub fn unescape(shown: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let kind = rest.chars().next()?;
        rest = &rest[kind.len_utf8()..];
        match kind {
            '\\' => out.push(b'\\'),
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            'r' => out.push(b'\r'),
            'x' => {
                let digits = rest
                    .get(..2)
                    .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            'u' => {
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                if digits.is_empty()
                    || digits.len() > 6
                    || !digits.bytes().all(|b| b.is_ascii_hexdigit())
                {
                    return None;
                }
                let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            _ => return None,
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_show_their_tricks() {
        assert_eq!(
            escape_name(b"a\nb\x1b[31m\\\xff"),
            "a\\nb\\x1b[31m\\\\\\xff"
        );
        assert_eq!(
            escape_name("x\u{202e}gpj.exe".as_bytes()),
            "x\\u{202e}gpj.exe"
        );
        assert_eq!(escape_name("é😀".as_bytes()), "é😀");
    }

    #[test]
    fn a_stray_backslash_is_no_escape() {
        for bad in [
            "\\",
            "\\q",
            "\\x1",
            "\\xzz",
            "\\u{}",
            "\\u{d800}",
            "\\u{1234567}",
            "\\u202e",
            "\\x+1",
        ] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn escaping_a_name_is_reversible_and_leaves_nothing_forbidden(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let shown = escape_name(&bytes);
            prop_assert!(!shown.chars().any(|c| is_forbidden(c) || c == '\n' || c == '\t'));
            prop_assert_eq!(unescape(&shown), Some(bytes));
        }

        #[test]
        fn so_is_a_name_of_any_characters(text in any::<String>()) {
            let shown = escape_name(text.as_bytes());
            prop_assert!(!shown.chars().any(is_forbidden));
            prop_assert_eq!(unescape(&shown), Some(text.into_bytes()));
        }

        #[test]
        fn unescape_never_panics(text in any::<String>()) {
            let _ = unescape(&text);
        }
    }
}
