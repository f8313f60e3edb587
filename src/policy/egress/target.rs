//! The target of a request, path and query, in one spelling.
//!
//! A rule about paths is only worth something where rule and server read the same path. What two servers could read
//! differently is ambiguous, and is never matched.

use std::borrow::Cow;

use super::EgressDenial;

/// The target with every escape of a character that needs none (RFC 3986, 6.2.2.2) replaced by it, and the others in
/// capitals. To be used for matching, sending and recording alike.
#[must_use]
pub fn canonical_target(target: &str) -> Cow<'_, str> {
    if !target.contains('%') {
        return Cow::Borrowed(target);
    }
    let mut canonical = String::with_capacity(target.len());
    let mut rest = target;
    while let Some(at) = rest.find('%') {
        canonical.push_str(&rest[..at]);
        rest = &rest[at..];
        // A `%` that begins no escape stays what it is.
        let (kept, length) = match escaped(rest.as_bytes()) {
            Some(byte) if is_unreserved(byte) => (char::from(byte).to_string(), 3),
            Some(_) => (rest[..3].to_ascii_uppercase(), 3),
            None => ("%".to_owned(), 1),
        };
        canonical.push_str(&kept);
        rest = &rest[length..];
    }
    canonical.push_str(rest);
    Cow::Owned(canonical)
}

/// Whether nothing in the target could end or split it: no control character, space, fragment or non-ASCII byte.
pub(super) fn is_clean(target: &str) -> bool {
    target.bytes().all(|b| b.is_ascii_graphic() && b != b'#')
}

/// The path of a canonical target, if everybody reads it alike.
///
/// # Errors
/// [`EgressDenial::PathAmbiguous`]: not canonical, an empty segment, `.` or `..` (also before `;`, where some servers
/// cut), a backslash, an escape that is none, or one of a control character, `/`, `\` or another escape, or escapes that
/// make no UTF-8.
pub(super) fn unambiguous_path(target: &str) -> Result<&str, EgressDenial> {
    let path = target.split('?').next().unwrap_or_default();
    let segments = path.strip_prefix('/').ok_or(EgressDenial::PathAmbiguous)?;
    let last = segments.matches('/').count();
    for (at, segment) in segments.split('/').enumerate() {
        let name = segment.split(';').next().unwrap_or_default();
        let empty = segment.is_empty() && at < last;
        if empty || name == "." || name == ".." || segment.contains('\\') {
            return Err(EgressDenial::PathAmbiguous);
        }
    }
    let bytes = path.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut copied = 0;
    for at in (0..bytes.len()).filter(|at| bytes[*at] == b'%') {
        let byte = escaped(&bytes[at..]).ok_or(EgressDenial::PathAmbiguous)?;
        let lower = bytes[at + 1..at + 3].iter().any(u8::is_ascii_lowercase);
        let splits = matches!(byte, b'/' | b'\\' | b'%') || byte.is_ascii_control();
        if lower || splits || is_unreserved(byte) {
            return Err(EgressDenial::PathAmbiguous);
        }
        plain.extend_from_slice(&bytes[copied..at]);
        plain.push(byte);
        copied = at + 3;
    }
    // Lenient decoders take what is no UTF-8 for other characters: an overlong `.` or `/` for the character itself.
    if std::str::from_utf8(&plain).is_err() {
        return Err(EgressDenial::PathAmbiguous);
    }
    Ok(path)
}

/// The byte that an escape at the beginning stands for.
fn escaped(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] => {
            let digit = |b: u8| char::from(b).to_digit(16);
            u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
        }
        _ => None,
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_escape_that_is_not_needed_is_undone_and_the_others_are_in_capitals() {
        assert_eq!(canonical_target("/repos/x"), "/repos/x");
        assert_eq!(canonical_target("/%72epos/%7ex%2d"), "/repos/~x-");
        assert_eq!(canonical_target("/a%2fb?q=%c3%a9%41"), "/a%2Fb?q=%C3%A9A");
        assert_eq!(canonical_target("/%2e%2E/x"), "/../x");
        assert_eq!(canonical_target("/%/%4/%zz%"), "/%/%4/%zz%");
        // Undone once only: what comes out is no second escape.
        assert_eq!(canonical_target("/%2541"), "/%2541");
        assert_eq!(canonical_target("/%%341"), "/%41");
    }

    #[test]
    fn a_path_that_servers_read_differently_is_ambiguous() {
        for path in [
            "",
            "x",
            "*",
            "//",
            "//x",
            "/a//b",
            "/a//",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/a/..",
            "/a/..;/b",
            "/a/.;x/b",
            "/a\\b",
            "/a%2Fb",
            "/a%2fb",
            "/a%5Cb",
            "/%2E%2E/",
            "/a%00",
            "/a%0A",
            "/a%7F",
            "/a%1Fb",
            "/a%252e",
            "/a%",
            "/a%4",
            "/a%zz",
            "/%72epos",
            "/a%c3%A9",
            "/a%25",
            "/%C0%AE%C0%AE/b",
            "/a%C0%AFb",
            "/%E0%80%AE/b",
            "/a%FF",
        ] {
            assert_eq!(
                unambiguous_path(path),
                Err(EgressDenial::PathAmbiguous),
                "{path}"
            );
        }
    }

    #[test]
    fn a_path_that_all_read_alike_is_given_without_its_query() {
        for (target, path) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/", "/a/"),
            ("/a?x=/../..//%2f", "/a"),
            ("/a/...", "/a/..."),
            ("/a/..b", "/a/..b"),
            ("/a;b=c/d", "/a;b=c/d"),
            ("/caf%C3%A9%20x", "/caf%C3%A9%20x"),
        ] {
            assert_eq!(unambiguous_path(target), Ok(path), "{target}");
        }
    }

    #[test]
    fn what_could_end_a_target_is_not_clean() {
        for target in [
            "/a b",
            "/a\tb",
            "/a\r\nX: y",
            "/a\0",
            "/a\x7f",
            "/a#b",
            "/é",
        ] {
            assert!(!is_clean(target), "{target:?}");
        }
        assert!(is_clean("/a%20b?c=d&e=%0A"));
    }

    proptest! {
        #[test]
        fn a_path_that_passes_has_no_segment_that_goes_up(target in "/[a./%;2eEfF5cC\\\\?]{0,24}") {
            let canonical = canonical_target(&target);
            if let Ok(path) = unambiguous_path(&canonical) {
                let lower = path.to_ascii_lowercase();
                prop_assert!(!lower.contains("%2e") && !lower.contains("%2f") && !lower.contains("%5c"));
                prop_assert!(path.split('/').all(|s| s != ".." && s != "." && !s.starts_with("..;")));
            }
        }

        #[test]
        fn any_text_can_be_asked_about(target in any::<String>()) {
            let canonical = canonical_target(&target);
            let _ = (unambiguous_path(&canonical), is_clean(&canonical));
        }
    }
}
