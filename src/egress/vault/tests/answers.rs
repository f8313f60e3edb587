//! What is found in answers, in whatever pieces they come.

use base64::{Engine as _, engine::general_purpose};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::egress::vault::{forms, search::NOTE};

/// What finds these.
fn finding(credentials: &[&str]) -> Redactor {
    let credentials = credentials.iter().map(|one| Secret::new((*one).to_owned()));
    Redactor::new(Arc::new(Known::new(credentials.collect()).unwrap()))
}

/// A body without a coding, redacted.
fn body(redactor: &Redactor, pieces: &[&[u8]]) -> Vec<u8> {
    let mut head = answer(200, &[]);
    let Plan::Redact(mut body) = redactor.plan(&mut head, false, Uninspectable::Block) else {
        panic!("it can be searched");
    };
    let mut out = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&body.push(piece).unwrap());
    }
    out.extend_from_slice(&body.finish().unwrap());
    out
}

pub(super) fn answer(status: u16, lines: &[(&str, &str)]) -> hyper::http::response::Parts {
    let mut answer = hyper::Response::new(());
    *answer.status_mut() = status.try_into().unwrap();
    *answer.headers_mut() = headers(lines);
    answer.into_parts().0
}

/// Escapes every byte that `kept` does not keep.
fn escaped(text: &str, kept: impl Fn(char) -> bool, escape: impl Fn(u8) -> String) -> String {
    text.chars()
        .map(|c| {
            if kept(c) {
                c.to_string()
            } else {
                escape(c as u8)
            }
        })
        .collect()
}

/// How a server might send `secret` back with `before` and `after` around it.
fn echoes(secret: &str, before: &[u8], after: &[u8]) -> Vec<Vec<u8>> {
    let whole = [before, secret.as_bytes(), after].concat();
    let around = |text: String| [before, text.as_bytes(), after].concat();
    let never = |_: char| false;
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    let upper = |byte: u8| format!("%{byte:02X}");
    let lower = |byte: u8| format!("%{byte:02x}");
    let unicode = |byte: u8| format!("\\u{byte:04x}");
    let json = serde_json::to_string(secret).unwrap();
    let json = json[1..json.len() - 1].to_owned();
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let html = |quote: &str, apostrophe: &str| {
        secret
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', quote)
            .replace('\'', apostrophe)
    };
    let mut echoes = vec![
        whole.clone(),
        around(escaped(secret, never, upper)),
        around(escaped(secret, never, lower)),
        around(escaped(secret, alphanumeric, upper)),
        around(escaped(secret, unreserved, upper)),
        around(escaped(secret, unreserved, lower)),
        around(form),
        around(json.clone()),
        around(json.replace('/', "\\/")),
        around(escaped(secret, never, unicode)),
        around(escaped(secret, alphanumeric, unicode)),
        around(html("&quot;", "&#x27;")),
        around(html("&#34;", "&#39;")),
        around(secret.bytes().map(|byte| format!("{byte:02x}")).collect()),
        around(secret.bytes().map(|byte| format!("{byte:02X}")).collect()),
        around(secret.to_ascii_uppercase()),
    ];
    for engine in [
        general_purpose::STANDARD,
        general_purpose::STANDARD_NO_PAD,
        general_purpose::URL_SAFE,
        general_purpose::URL_SAFE_NO_PAD,
    ] {
        let alone = engine.encode(secret);
        let within = engine.encode(&whole);
        echoes.push(escaped(&within, alphanumeric, upper).into_bytes());
        echoes.push(within.replace('/', "\\/").into_bytes());
        echoes.push(engine.encode(&within).into_bytes());
        echoes.push(within.into_bytes());
        echoes.push(around(alone));
    }
    echoes
}

/// The forms of `secret` that are left in `text`.
fn left(secret: &str, text: &[u8]) -> usize {
    let text = text.to_ascii_lowercase();
    forms::of(secret)
        .iter()
        .filter(|form| {
            text.windows(form.len())
                .any(|window| window == form.as_slice())
        })
        .count()
}

/// Cuts `text` into pieces of these lengths, over and over.
fn cut<'a>(text: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = text;
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_echo_of_a_secret_survives(
        secret in "[ -~]{8,64}",
        before in vec(any::<u8>(), 0..40),
        after in vec(any::<u8>(), 0..40),
        lengths in vec(1..100_usize, 1..5),
    ) {
        let redactor = finding(&[&secret]);
        for echo in echoes(&secret, &before, &after) {
            prop_assert!(left(&secret, &echo) > 0, "no form is known of {:?}", echo);
            let out = body(&redactor, &cut(&echo, &lengths));
            prop_assert_eq!(left(&secret, &out), 0, "{:?}", out);
            prop_assert!(out.windows(NOTE.len()).any(|window| window == NOTE.as_bytes()));
        }
    }

    #[test]
    fn what_has_no_secret_passes_unchanged(
        secret in "[ -~]{8,64}",
        text in vec(any::<u8>(), 0..400),
        beginning in 0..8_usize,
        lengths in vec(1..100_usize, 1..5),
    ) {
        // A beginning of the secret is held back, and let go at the end.
        let text = [&text, &secret.as_bytes()[..beginning]].concat();
        prop_assume!(left(&secret, &text) == 0);
        prop_assert_eq!(body(&finding(&[&secret]), &cut(&text, &lengths)), text);
    }

    #[test]
    fn the_pieces_make_no_difference(
        parts in vec(prop_oneof![Just("abcdabcd"), Just("abcdabcdabcx"), Just("abcd"), Just("x"), Just("abc")], 0..20),
        lengths in vec(1..20_usize, 1..5),
    ) {
        let text = parts.concat();
        let redactor = finding(&["abcdabcd", "abcdabcdabcx", "dabcdabcdabc"]);
        let whole = body(&redactor, &[text.as_bytes()]);
        prop_assert_eq!(body(&redactor, &cut(text.as_bytes(), &lengths)), whole);
    }
}

#[test]
fn everything_but_the_secret_stays() {
    let redactor = finding(&[TOKEN]);
    let text = format!("a {TOKEN} b {} c", general_purpose::STANDARD.encode(TOKEN));
    let out = body(&redactor, &[text.as_bytes()]);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!("a {NOTE} b {NOTE} c")
    );
}

#[test]
fn the_longest_of_several_secrets_is_found() {
    let redactor = finding(&["abcdefgh", "abcdefghijkl", "efghijklmnop"]);
    let out = body(
        &redactor,
        &[
            b"1abcdefgh2abcdef",
            b"ghijkl3efghijklmno",
            b"p4abcdefghijk5",
        ],
    );
    let expected = format!("1{NOTE}2{NOTE}3{NOTE}4{NOTE}ijk5");
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_piece_is_passed_on_at_once_unless_it_may_begin_a_secret() {
    let redactor = finding(&[TOKEN]);
    let mut head = answer(200, &[("content-type", "text/event-stream")]);
    let Plan::Redact(mut body) = redactor.plan(&mut head, false, Uninspectable::Block) else {
        panic!("it can be searched");
    };
    assert_eq!(body.push(b"data: 1\n\n").unwrap(), "data: 1\n\n");
    assert_eq!(body.push(b"data: ghp").unwrap(), "data: ");
    assert_eq!(body.push(b"ost\n\n").unwrap(), "ghpost\n\n");
    for byte in TOKEN.as_bytes() {
        assert!(!body.push(&[*byte]).unwrap().contains(byte));
    }
    assert_eq!(body.finish().unwrap(), "");
}

#[tokio::test]
async fn the_pair_of_basic_authentication_is_taken_out_as_a_whole() {
    for user in ["", "m", "me", "x-access-token"] {
        let inject = Injection::Basic {
            user: user.to_owned(),
        };
        let vault = vault(vec![spec("one", TOKEN, &["api.lab.test"], inject)]).await;
        let pair = general_purpose::STANDARD.encode(format!("{user}:{TOKEN}"));
        let text = format!("Basic {pair}; {TOKEN}; {user}");
        let out = body(&vault.redactor().unwrap(), &[text.as_bytes()]);
        let expected = format!("Basic {NOTE}; {NOTE}; {user}");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn secrets_go_from_headers_and_trailers_and_the_rest_of_them_stays() {
    let redactor = finding(&[TOKEN]);
    let location = format!("https://x.lab.test/?t={TOKEN}&u=1");
    let name = format!("x-{TOKEN}");
    let encoded = general_purpose::STANDARD.encode(format!("a:{TOKEN}"));
    let mut lines = headers(&[
        ("location", &location),
        ("set-cookie", "a=1"),
        ("set-cookie", &encoded),
        (&name, "1"),
    ]);
    redactor.headers(&mut lines);
    let expected = format!("https://x.lab.test/?t={NOTE}&u=1");
    assert_eq!(value(&lines, "location"), expected);
    let cookies: Vec<_> = lines.get_all("set-cookie").iter().collect();
    assert_eq!(cookies[0], "a=1");
    assert!(cookies[1].to_str().unwrap().contains(NOTE));
    assert_eq!(lines.len(), 3, "the name of the last one held it");
}

#[test]
fn a_secret_that_is_minted_while_a_body_streams_is_found_in_it() {
    let known = Arc::new(Known::new(vec![Secret::new("first-token".to_owned())]).unwrap());
    let redactor = Redactor::new(Arc::clone(&known));
    let mut head = answer(200, &[]);
    let Plan::Redact(mut body) = redactor.plan(&mut head, false, Uninspectable::Block) else {
        panic!("it can be searched");
    };
    assert_eq!(body.push(b"second-token ").unwrap(), "second-token ");
    known
        .add(vec![Secret::new("second-token".to_owned())])
        .unwrap();
    let out = body.push(b"first-token second-token ").unwrap();
    assert_eq!(out, format!("{NOTE} {NOTE} "));
}

#[test]
fn more_secrets_than_can_be_searched_for_are_refused_rather_than_forgotten() {
    let known = Known::new(vec![Secret::new("token number".to_owned())]).unwrap();
    let added = (0..1000).find_map(|at| {
        let one = Secret::new(format!("token number {at}"));
        // The same one again takes no room.
        known
            .add(vec![one.clone()])
            .and_then(|()| known.add(vec![one]))
            .err()
    });
    assert!(added.is_some());
}

#[test]
fn the_longest_secret_can_be_searched_for() {
    let longest: String = ('!'..='~').cycle().take(8 * 1024).collect();
    let redactor = finding(&[&longest]);
    let echo = format!("<{longest}>");
    let out = body(&redactor, &cut(echo.as_bytes(), &[1000]));
    assert_eq!(String::from_utf8(out).unwrap(), format!("<{NOTE}>"));
}
