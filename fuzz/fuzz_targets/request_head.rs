//! The strict reader of request heads: never panics, finds the end in whatever pieces the head comes, and what it takes
//! has one Host and one length at most.
#![no_main]

use belljar::egress::head::{Head, end};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = end(bytes, 0);
    let half = bytes.len() / 2;
    if let (Ok(None), Ok(Some(at))) = (end(&bytes[..half], 0), whole) {
        assert_eq!(end(bytes, half), Ok(Some(at)));
    }
    let Ok(Some(at)) = whole else { return };
    let Ok(head) = Head::parse_request(&bytes[..at]) else { return };
    let lines = bytes[..at].split(|byte| *byte == b'\n');
    let named = |name: &[u8]| {
        lines
            .clone()
            .filter(|line| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name))
            .count()
    };
    assert_eq!(named(b"host:"), 1);
    assert!(named(b"content-length:") + named(b"transfer-encoding:") <= 1);
    assert!(!head.method.eq_ignore_ascii_case("TRACE") && !head.method.eq_ignore_ascii_case("CONNECT"));
});
