//! What programs and servers say on the way out.

use std::{cell::OnceCell, sync::Arc};

use futures_util::FutureExt as _;
use hyper::{
    HeaderMap, Method, Response,
    header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING},
};
use tokio::io::AsyncReadExt as _;

use super::input::{Cuts, Input, Pieces, settle};
use crate::{
    config::{HttpUrl, Uninspectable},
    egress::{
        client_hello::inspect,
        exchange::headers::{for_program, settle_length},
        head::{Guard, Head, Length, end},
        socks::{greeting, request},
        vault::{
            forms,
            redact::{Known, Plan, Redactor},
            search::NOTE,
        },
    },
    policy::egress::canonical_target,
    types::{Endpoint, Host, Secret},
};

/// The look at the first message of TLS: what is said of a whole message does not depend on what follows it, and of a part
/// of it nothing else is said than of all.
pub(super) fn client_hello(bytes: &[u8]) {
    if let Ok(Some(seen)) = inspect(bytes) {
        let longer = [bytes, b"\x17\x03\x03\x00\x01x"].concat();
        assert_eq!(inspect(&longer).as_ref(), Ok(&Some(seen.clone())));
        for cut in [bytes.len() / 4, bytes.len() / 2, bytes.len() - 1] {
            let part = inspect(&bytes[..cut]).expect("it begins as the whole does");
            assert!(part.is_none_or(|part| part == seen));
        }
    }
}

/// Request heads: the end is found in whatever pieces they come; what is taken has one host and one length at most; and a
/// connection lets nothing pass but what was taken and the bodies between.
pub(super) fn request_head(bytes: &[u8]) {
    let whole = end(bytes, 0);
    let half = bytes.len() / 2;
    if let (Ok(None), Ok(Some(at))) = (end(&bytes[..half], 0), whole) {
        assert_eq!(end(bytes, half), Ok(Some(at)));
    }
    for cut in [&[][..], &[1], &[7, 2]] {
        let mut framed = vec![u8::try_from(cut.len()).unwrap_or_default()];
        framed.extend_from_slice(cut);
        assert_eq!(passed(Input(&framed).cuts(), bytes), vetted(bytes));
    }
    let Ok(Some(at)) = whole else { return };
    let Ok(head) = Head::parse_request(&bytes[..at]) else {
        return;
    };
    let lines = bytes[..at].split(|byte| *byte == b'\n');
    let named = |name: &[u8]| {
        let named =
            |line: &&[u8]| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name);
        lines.clone().filter(named).count()
    };
    assert_eq!(named(b"host:"), 1);
    assert!(named(b"content-length:") + named(b"transfer-encoding:") <= 1);
    let never = ["TRACE", "CONNECT"];
    assert!(
        never
            .iter()
            .all(|never| !head.method.eq_ignore_ascii_case(never))
    );
}

/// What the guard lets through of a connection.
fn passed(cuts: Cuts<'_>, bytes: &[u8]) -> Vec<u8> {
    let mut guard = Guard::new(Pieces::new(cuts, bytes));
    let mut passed = Vec::new();
    let mut buffer = [0; 64];
    while let Ok(count @ 1..) = settle(|| guard.read(&mut buffer).now_or_never()) {
        passed.extend_from_slice(&buffer[..count]);
    }
    passed
}

/// What may pass of a connection whose bytes are all here.
fn vetted(bytes: &[u8]) -> &[u8] {
    let mut at = 0_usize;
    loop {
        let rest = &bytes[at..];
        let Ok(Some(end)) = end(rest, 0) else {
            return &bytes[..at];
        };
        let Ok(head) = Head::parse_request(&rest[..end]) else {
            return &bytes[..at];
        };
        let body = match head.length {
            None => 0,
            Some(Length::Chunked) => return bytes,
            Some(Length::Bytes(body)) if body.checked_add(end as u64).is_none() => {
                return &bytes[..at];
            }
            Some(Length::Bytes(body)) => usize::try_from(body).unwrap_or(usize::MAX),
        };
        at = at.saturating_add(end).saturating_add(body);
        if at >= bytes.len() {
            return bytes;
        }
    }
}

/// The grammar of hosts: what is taken has one spelling, which is taken for the same.
pub(super) fn host(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(host) = Host::parse(text) {
        assert_eq!(Host::parse(&host.to_string()), Ok(host));
    }
    if let Ok(endpoint) = Endpoint::parse(text, Some(443)) {
        assert_eq!(Endpoint::parse(&endpoint.to_string(), None), Ok(endpoint));
    }
}

/// The messages of SOCKS 5: never says that it read more than there is, nor another thing of more bytes.
pub(super) fn socks(bytes: &[u8]) {
    let longer = [bytes, &[0]].concat();
    if let Ok(Some(length)) = greeting(bytes) {
        assert!(length <= bytes.len());
        assert_eq!(greeting(&longer), Ok(Some(length)));
    }
    if let Ok(Some((length, endpoint))) = request(bytes) {
        assert!(length <= bytes.len());
        assert_ne!(endpoint.port, 0);
        assert_eq!(request(&longer), Ok(Some((length, endpoint))));
    }
}

/// URLs of registries and the targets of requests: one spelling, and a reference never leads to what is no server.
pub(super) fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (base, reference) = text.split_once('\n').unwrap_or((text, ""));
    let again = |url: &HttpUrl| assert_eq!(HttpUrl::parse(&url.to_string()).as_ref(), Ok(url));
    if let Ok(base) = HttpUrl::parse(base) {
        again(&base);
        assert!(base.target().starts_with('/') && base.target().starts_with(base.path()));
        if let Ok(led) = base.join(reference) {
            again(&led);
            let elsewhere = led.endpoint != base.endpoint || led.scheme != base.scheme;
            assert!(!elsewhere || HttpUrl::parse(reference).is_ok());
        }
        if let Ok(below) = base.below(reference) {
            again(&below);
            assert_eq!(
                (&below.endpoint, below.scheme),
                (&base.endpoint, base.scheme)
            );
        }
    }
    // Undoing escapes is done once; what is left has none of what needs none.
    let target = canonical_target(text);
    assert!(target.len() <= text.len());
    let is_escape = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if text.split('%').skip(1).all(is_escape) {
        assert_eq!(canonical_target(&target), target);
    }
}

/// What is looked for: overlapping ones, one with everything that is escaped, and a pair of basic authentication.
const SECRETS: [&str; 5] = [
    "abcdabcd",
    "abcdabcdabcx",
    "dabcdabcdabc",
    r#"a/b+c"d<e\f&g h"#,
    "user:0123456789abcdef-0123456789abcdef",
];

thread_local! {
    static KNOWN: OnceCell<(Arc<Known>, Vec<Vec<u8>>)> = const { OnceCell::new() };
}

fn with_known(act: impl FnOnce(&Redactor, &[Vec<u8>])) {
    KNOWN.with(|known| {
        let (known, forms) = known.get_or_init(|| {
            let secrets = SECRETS.map(|secret| Secret::new(secret.to_owned()));
            let mut forms: Vec<Vec<u8>> = SECRETS
                .iter()
                .flat_map(|secret| forms::of(secret))
                .map(|form| form.to_vec())
                .collect();
            // The longest first, so that the first that fits is the one.
            forms.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
            forms.dedup();
            (
                Arc::new(Known::new(secrets.to_vec()).expect("few secrets")),
                forms,
            )
        });
        act(&Redactor::new(Arc::clone(known)), forms);
    });
}

/// Whether a form begins here, and how long the longest is.
fn form_at(text: &[u8], forms: &[Vec<u8>]) -> Option<usize> {
    let fits =
        |form: &&Vec<u8>| text.len() >= form.len() && text[..form.len()].eq_ignore_ascii_case(form);
    forms.iter().find(fits).map(Vec::len)
}

/// A whole text without secrets, found the slow and obvious way.
fn cleaned(text: &[u8], forms: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(length) = form_at(&text[at..], forms) {
            out.extend_from_slice(NOTE.as_bytes());
            at += length;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

fn has_secret(text: &[u8], forms: &[Vec<u8>]) -> bool {
    (0..text.len()).any(|at| form_at(&text[at..], forms).is_some())
}

/// Builds a text of bytes as they are and of forms of secrets, whole and in part: the fuzzer need not find them.
fn text_with_secrets(script: &[u8], forms: &[Vec<u8>]) -> Vec<u8> {
    let mut input = Input(script);
    let mut text = Vec::new();
    while !input.0.is_empty() {
        let choice = input.byte();
        match choice {
            0..=127 => text.extend_from_slice(input.take(usize::from(choice % 32))),
            128..=223 => text.extend_from_slice(&forms[input.word() % forms.len()]),
            // In capitals, as some encoders write.
            224..=239 => text.extend(forms[input.word() % forms.len()].to_ascii_uppercase()),
            _ => {
                let form = &forms[input.word() % forms.len()];
                text.extend_from_slice(&form[..usize::from(input.byte()) % form.len()]);
            }
        }
    }
    text
}

/// Redaction: a secret passes in none of its forms, whatever the coding and wherever the pieces are cut, and what is no
/// secret passes as it is.
pub(super) fn redact(bytes: &[u8]) {
    let mut input = Input(bytes);
    let coding = input.byte() % 5;
    let cuts = input.cuts();
    with_known(|redactor, forms| {
        let text = text_with_secrets(input.0, forms);
        let (name, body) = match coding {
            0 => ("", text.clone()),
            1 => ("gzip", gzip(&text)),
            2 => ("deflate", zlib(&text)),
            3 => ("deflate", bare(&text)),
            // Bytes that need not be what they are called.
            _ => ("gzip", input.0.to_vec()),
        };
        let came = through(redactor, name, cuts.of(&body));
        if coding == 4 {
            assert!(!came.is_some_and(|came| has_secret(&came, forms)));
            return;
        }
        let came = came.expect("what was coded");
        assert!(came == cleaned(&text, forms));
        assert!(!has_secret(&came, forms));
    });
}

/// What goes inside of a body; none where it cannot be read.
fn through<'a>(
    redactor: &Redactor,
    coding: &'static str,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<u8>> {
    let mut head = Response::new(()).into_parts().0;
    let value = HeaderValue::from_static(coding);
    head.headers.insert(hyper::header::CONTENT_ENCODING, value);
    let Plan::Redact(mut body) = redactor.plan(&mut head, false, Uninspectable::Block) else {
        panic!("it can be searched");
    };
    let mut came = Vec::new();
    for piece in pieces {
        came.extend_from_slice(&body.push(piece).ok()?);
    }
    came.extend_from_slice(&body.finish().ok()?);
    Some(came)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).expect("into memory");
    encoder.finish().expect("into memory")
}

fn zlib(text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).expect("into memory");
    encoder.finish().expect("into memory")
}

fn bare(text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).expect("into memory");
    encoder.finish().expect("into memory")
}

/// The most headers that an answer may have.
const MAX_HEADERS: usize = 128;

/// Heads of answers: what goes inside says nothing of the connection outside and no secret, and its body is read by the
/// length that it claims.
pub(super) fn answer(bytes: &[u8]) {
    let mut input = Input(bytes);
    let to_head = input.byte() & 1 != 0;
    let secret = SECRETS[usize::from(input.byte()) % SECRETS.len()];
    // The fuzzer writes a short mark where a server would echo.
    let mut raw = Vec::new();
    for byte in input.0 {
        match byte {
            b'\x01' => raw.extend_from_slice(secret.as_bytes()),
            other => raw.push(*other),
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(end)) = parsed.parse(&raw) else {
        return;
    };
    let Some((status, headers)) = read_head(&parsed) else {
        return;
    };
    with_known(|redactor, forms| {
        let mut head = Response::new(()).into_parts().0;
        head.status = status;
        head.headers = headers;
        for_program(&mut head.headers);
        let plan = redactor.plan(&mut head, to_head, Uninspectable::Block);
        let body = match plan {
            Plan::Redact(mut body) => {
                let first = body.push(&raw[end..]).ok();
                first.and_then(|first| Some([first, body.finish().ok()?].concat()))
            }
            Plan::Empty => Some(Vec::new()),
            Plan::Block => None,
            Plan::Pass => panic!("it must not pass"),
        };
        // Refused, or cut off: nothing of it counts as an answer.
        let Some(body) = body else { return };
        assert!(!has_secret(&body, forms));
        let length = body.len();
        let mut answer = Response::from_parts(head, http_body_util::Full::new(body.as_slice()));
        let method = if to_head { Method::HEAD } else { Method::GET };
        settle_length(&mut answer, &method);
        for (name, value) in answer.headers() {
            assert!(!has_secret(name.as_str().as_bytes(), forms));
            assert!(!has_secret(value.as_bytes(), forms));
            assert!(!name.as_str().starts_with("proxy-"));
        }
        for gone in [CONNECTION, TRANSFER_ENCODING] {
            assert!(!answer.headers().contains_key(gone));
        }
        let claimed: Vec<_> = answer.headers().get_all(CONTENT_LENGTH).iter().collect();
        if !to_head && answer.status() != hyper::StatusCode::NOT_MODIFIED {
            assert!(claimed.len() <= 1);
            assert!(
                claimed
                    .iter()
                    .all(|claimed| **claimed == HeaderValue::from(length))
            );
        }
    });
}

fn read_head(parsed: &httparse::Response<'_, '_>) -> Option<(hyper::StatusCode, HeaderMap)> {
    let status = hyper::StatusCode::from_u16(parsed.code?).ok()?;
    let mut headers = HeaderMap::new();
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some((status, headers))
}
