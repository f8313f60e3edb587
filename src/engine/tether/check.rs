//! Checks what the guest claims about files. It must accept only paths that stay below the workspace
//! when they are joined to it, so that no later step has to think of it again.

use belljar_wire::limits::{MAX_DEPTH, MAX_PATH};
use belljar_wire::message::Entry;

use super::Violation;

/// An entry whose path can be used: relative, not empty, bounded, and without empty, `.` and `..`
/// components and NUL bytes. Its bytes may still be anything else: escapes, newlines, invalid UTF-8.
pub(super) fn entry(entry: Entry) -> Result<Entry, Violation> {
    let path = &entry.path;
    if path.is_empty() || path.len() > MAX_PATH || path.contains(&0) {
        return Err(Violation::Path);
    }
    let mut depth = 0;
    for component in path.split(|byte| *byte == b'/') {
        depth += 1;
        if matches!(component, b"" | b"." | b"..") || depth > MAX_DEPTH {
            return Err(Violation::Path);
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use belljar_wire::message::EntryKind;
    use proptest::prelude::*;

    use super::*;

    fn checked(path: &[u8]) -> Result<Entry, Violation> {
        entry(Entry {
            path: path.to_vec(),
            kind: EntryKind::File,
            bytes: 0,
            modified_ms: 0,
        })
    }

    #[test]
    fn paths_that_leave_the_workspace_are_refused() {
        let deep = ["a"; MAX_DEPTH + 1].join("/");
        let long = "a".repeat(MAX_PATH + 1);
        for path in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a//b",
            "a/",
            ".",
            "./a",
            "a\0b",
            &deep,
            &long,
        ] {
            assert_eq!(checked(path.as_bytes()), Err(Violation::Path), "{path:?}");
        }
    }

    #[test]
    fn odd_names_are_still_names() {
        for path in [
            &b"a"[..],
            b"a/b",
            b"...",
            b"..a",
            b"a\n\x1b[0m",
            b"\xff\xfe",
        ] {
            assert!(checked(path).is_ok(), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_stays_below_what_it_is_joined_to(
            path in proptest::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), any::<u8>()], 0..40),
        ) {
            if let Ok(entry) = checked(&path) {
                let text = String::from_utf8_lossy(&entry.path).into_owned();
                for component in std::path::Path::new(&text).components() {
                    prop_assert!(matches!(component, std::path::Component::Normal(_)));
                }
            }
        }
    }
}
