//! Codings of bodies: which are undone, which are not, and how far.

use std::io::Write as _;

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};

use super::{answers::answer, *};
use crate::egress::vault::{
    decode::{FREE_BYTES, MAX_GROWTH},
    search::NOTE,
};

fn redactor() -> Redactor {
    Redactor::new(Arc::new(
        Known::new(vec![Secret::new(TOKEN.to_owned())]).unwrap(),
    ))
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn bare(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn coded(coding: &str) -> BodyRedactor {
    let mut head = answer(200, &[("content-encoding", coding)]);
    match redactor().plan(&mut head, false, Uninspectable::Block) {
        Plan::Redact(body) => *body,
        other => panic!("{other:?}"),
    }
}

fn decoded(coding: &str, text: &[u8], piece: usize) -> Result<Vec<u8>, Unreadable> {
    let mut body = coded(coding);
    let mut out = Vec::new();
    for piece in text.chunks(piece) {
        out.extend_from_slice(&body.push(piece)?);
    }
    out.extend_from_slice(&body.finish()?);
    Ok(out)
}

#[test]
fn what_is_coded_is_decoded_and_searched_in_pieces_of_any_length() {
    let filler: String = (0..4000).map(|n| format!("{n},")).collect();
    let text = format!("{filler}{TOKEN}{filler}");
    let expected = format!("{filler}{NOTE}{filler}");
    let text = text.as_bytes();
    let (first, second) = text.split_at(filler.len() + 7);
    let cases = [
        ("identity", text.to_vec()),
        ("gzip", gzip(text)),
        ("x-gzip", gzip(text)),
        ("GZIP", gzip(text)),
        ("gzip", [gzip(first), gzip(second)].concat()),
        ("deflate", zlib(text)),
        ("deflate", bare(text)),
    ];
    for (coding, sent) in cases {
        for piece in [1, 2, 1000, BodyRedactor::MAX_PIECE, sent.len()] {
            let out = decoded(coding, &sent, piece).unwrap();
            assert!(out == expected.as_bytes(), "{coding} in pieces of {piece}");
        }
    }
}

#[test]
fn an_empty_body_is_empty_in_every_coding() {
    for coding in ["identity", "gzip", "deflate"] {
        assert_eq!(decoded(coding, b"", 1).unwrap(), b"");
    }
    assert_eq!(decoded("gzip", &gzip(b""), 1).unwrap(), b"");
    assert_eq!(decoded("deflate", &zlib(b""), 1).unwrap(), b"");
}

#[test]
fn a_coded_stream_passes_on_what_was_flushed() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut body = coded("gzip");
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let piece = std::mem::take(encoder.get_mut());
        assert_eq!(body.push(&piece).unwrap(), event);
    }
    let piece = encoder.finish().unwrap();
    assert_eq!(body.push(&piece).unwrap(), "");
    assert_eq!(body.finish().unwrap(), "");
}

#[test]
fn what_is_cut_off_or_garbled_does_not_look_complete() {
    let text = b"hello hello hello hello";
    let mut garbled = gzip(text);
    let at = garbled.len() - 6;
    garbled[at] ^= 1;
    let cases = [
        ("gzip", garbled),
        ("gzip", gzip(text)[..20].to_vec()),
        ("gzip", gzip(text)[..5].to_vec()),
        ("gzip", [gzip(text), b"trailing".to_vec()].concat()),
        ("gzip", text.to_vec()),
        ("deflate", zlib(text)[..10].to_vec()),
        ("deflate", zlib(text)[..1].to_vec()),
        ("deflate", bare(text)[..6].to_vec()),
        ("deflate", [zlib(text), b"trailing".to_vec()].concat()),
        ("deflate", b"\xff\xff\xff\xff".to_vec()),
    ];
    for (coding, sent) in cases {
        for piece in [1, sent.len()] {
            assert_eq!(
                decoded(coding, &sent, piece),
                Err(Unreadable),
                "{coding}: {sent:?}"
            );
        }
    }
}

#[test]
fn after_an_error_nothing_more_comes() {
    let mut body = coded("gzip");
    body.push(b"no gzip at all").unwrap_err();
    body.push(&gzip(b"hello")).unwrap_err();
    body.finish().unwrap_err();
}

#[test]
fn a_bomb_is_cut_off_at_the_bound() {
    let most = usize::try_from(FREE_BYTES).unwrap();
    let zeros = vec![0; 8 * most];
    for (coding, sent) in [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("deflate", bare(&zeros)),
    ] {
        let mut body = coded(coding);
        let mut out = 0;
        let failed = sent.chunks(1000).find_map(|piece| match body.push(piece) {
            Ok(more) => {
                out += more.len();
                None
            }
            Err(error) => Some(error),
        });
        assert_eq!(failed, Some(Unreadable), "{coding}");
        assert!(out <= most + sent.len() * usize::try_from(MAX_GROWTH).unwrap());
    }
    // What shrinks a lot but is small passes.
    assert_eq!(
        decoded("gzip", &gzip(&zeros[..most]), 1000).unwrap().len(),
        most
    );
}

#[test]
fn what_cannot_be_searched_is_blocked_unless_the_operator_lets_it_pass() {
    let cases: [(u16, &[(&str, &str)]); 9] = [
        (200, &[("content-encoding", "br")]),
        (200, &[("content-encoding", "zstd")]),
        (200, &[("content-encoding", "gzip, gzip")]),
        (
            200,
            &[("content-encoding", "gzip"), ("content-encoding", "br")],
        ),
        (200, &[("content-encoding", "unknown")]),
        (206, &[("content-type", "text/plain")]),
        (200, &[("content-range", "bytes 0-1/2")]),
        (
            200,
            &[("content-type", " Multipart/ByteRanges; boundary=x")],
        ),
        (101, &[]),
    ];
    for (status, lines) in cases {
        let mut head = answer(status, lines);
        let plan = redactor().plan(&mut head, false, Uninspectable::Block);
        assert!(matches!(plan, Plan::Block), "{status} {lines:?}");
        let mut head = answer(
            status,
            &[lines, &[("x-echo", TOKEN), ("content-length", "5")]].concat(),
        );
        let plan = redactor().plan(&mut head, false, Uninspectable::Pass);
        assert!(matches!(plan, Plan::Pass), "{status} {lines:?}");
        assert_eq!(value(&head.headers, "x-echo"), NOTE);
        assert_eq!(value(&head.headers, "content-length"), "5");
    }
}

#[test]
fn an_answer_without_a_body_keeps_its_head() {
    for (status, to_head) in [(200, true), (204, false), (304, false)] {
        let lines = [
            ("content-encoding", "br"),
            ("content-length", "5"),
            ("x-echo", TOKEN),
        ];
        let mut head = answer(status, &lines);
        let plan = redactor().plan(&mut head, to_head, Uninspectable::Block);
        assert!(matches!(plan, Plan::Empty), "{status}");
        assert_eq!(value(&head.headers, "content-length"), "5");
        assert_eq!(value(&head.headers, "x-echo"), NOTE);
    }
}

#[test]
fn a_head_says_nothing_of_bytes_that_are_no_longer_the_same() {
    let mut head = answer(
        200,
        &[
            ("content-length", "5"),
            ("content-encoding", "gzip"),
            ("content-md5", "x"),
            ("content-digest", "x"),
            ("repr-digest", "x"),
            ("digest", "x"),
            ("accept-ranges", "bytes"),
            ("content-type", "text/plain"),
        ],
    );
    head.extensions.insert("a reason phrase");
    let plan = redactor().plan(&mut head, false, Uninspectable::Block);
    assert!(matches!(plan, Plan::Redact(_)));
    assert_eq!(head.headers, headers(&[("content-type", "text/plain")]));
    assert!(head.extensions.is_empty());
}
