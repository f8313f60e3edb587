use proptest::prelude::*;

use super::{reference::reference, *};

/// Pieces that hostile and honest programs print, joined at random.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<Vec<u8>>(),
        any::<String>().prop_map(String::into_bytes),
        "[ -~\n\t]{0,40}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            "\r\n",
            "\x1b[2J",
            "\u{202e}",
            "\u{e0041}",
            "\u{200b}",
            "ä",
            "€",
            "😀",
            "\\",
            "[belljar: 5 bytes omitted]\n",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        (0usize..4, prop::sample::select(vec!["ä", "€", "😀"])).prop_map(|(n, c)| {
            let bytes = c.as_bytes();
            bytes[..n.min(bytes.len())].to_vec()
        }),
        prop::collection::vec(0x80u8..0xc0, 0..6),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn check_counts(shown: &Shown) {
    let text = shown.text();
    assert!(
        !text.chars().any(visible::is_forbidden),
        "something forbidden survived: {text:?}"
    );
    assert_eq!(shown.truncated(), shown.omitted_bytes() > 0);
}

proptest! {
    #[test]
    fn the_text_is_what_the_reference_says(bytes in pieces(), limit in 0usize..700) {
        let shown = show_bytes(&bytes, limit);
        check_counts(&shown);
        prop_assert!(shown.text().len() <= limit.max(OMISSION_ROOM));
        prop_assert_eq!(shown, reference(&bytes, limit));
    }

    #[test]
    fn text_without_tricks_is_shown_as_it_is(text in "[ -~\n\täöü€😀]{0,200}") {
        let shown = show_bytes(text.as_bytes(), SHOWN_BYTES);
        prop_assert!(shown.is_faithful());
        prop_assert_eq!(shown.text(), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_window_shows_what_the_whole_stream_would(
        bytes in pieces(), times in 1usize..400, shift in 0usize..5,
    ) {
        let mut stream = vec![b'.'; shift];
        for _ in 0..times {
            stream.extend_from_slice(&bytes);
            if stream.len() > 300_000 {
                break;
            }
        }
        let shown = show(&Window::of(&stream), SHOWN_BYTES);
        check_counts(&shown);
        prop_assert!(shown.text().len() <= SHOWN_BYTES);
        prop_assert_eq!(shown, show_bytes(&stream, SHOWN_BYTES));
    }
}

#[test]
fn controls_invisible_characters_and_broken_utf8_become_visible() {
    let shown = show_bytes(
        b"a\tb\r\nc\x1b[31m\x00\xff\xe2\x80\xae\xe2\x82 \xc2\x9b\x7f",
        SHOWN_BYTES,
    );
    assert_eq!(
        shown.text(),
        "a\tb\\r\nc\\x1b[31m\\x00\\xff\\u{202e}\\xe2\\x82 \\u{9b}\\x7f"
    );
    assert_eq!(shown.escaped(), 9);
    assert!(!shown.truncated() && !shown.is_faithful());
}

#[test]
fn the_omission_has_a_line_of_its_own_and_an_exact_count() {
    let shown = show_bytes("é".repeat(10_000).as_bytes(), 264);
    assert_eq!(
        shown.text(),
        format!(
            "{}\n[belljar: 19800 bytes omitted]\n{}",
            "é".repeat(50),
            "é".repeat(50)
        )
    );
    assert_eq!(shown.omitted_bytes(), 19_800);
    let lines = show_bytes("line\n".repeat(1000).as_bytes(), 164).text();
    assert!(
        lines.contains("line\n[belljar: 4900 bytes omitted]\nline"),
        "{lines}"
    );
}

#[test]
fn a_character_torn_at_the_edge_of_the_window_is_omitted_rather_than_escaped() {
    // Larger than both windows, shifted so that each edge tears a four-byte character somewhere.
    for shift in 0..4 {
        let stream = [vec![b'x'; shift], "😀".repeat(50_000).into_bytes()].concat();
        for limit in [SHOWN_BYTES, usize::MAX] {
            let shown = show(&Window::of(&stream), limit);
            assert_eq!(shown.escaped(), 0, "shift {shift}");
            let raw = shown.head().len() + shown.tail().unwrap().len();
            assert_eq!(raw as u64 + shown.omitted_bytes(), stream.len() as u64);
        }
    }
}

#[test]
fn an_unfinished_character_at_the_very_end_is_shown() {
    assert_eq!(show_bytes(b"ok \xe2\x82", 100).text(), "ok \\xe2\\x82");
    let long = [vec![b'x'; 1000], b"\xe2\x82".to_vec()].concat();
    assert!(show_bytes(&long, 200).text().ends_with("x\\xe2\\x82"));
}

#[test]
fn nothing_is_nothing() {
    let shown = show_bytes(b"", SHOWN_BYTES);
    assert!(shown.is_empty() && shown.is_faithful());
    assert_eq!(shown.text(), "");
}

#[test]
fn a_piece_ends_on_a_character_and_loses_no_invalid_byte() {
    for (piece, len) in [
        (&b"ab"[..], 2),
        ("aé".as_bytes(), 3),
        (b"a\xc3", 1),
        (b"a\xf0\x9f\x98", 1),
        (b"a\xff", 2),
        (b"\x80\x80\x80", 3),
        (b"", 0),
    ] {
        assert_eq!(whole_characters(piece).len(), len, "{piece:?}");
    }
}
