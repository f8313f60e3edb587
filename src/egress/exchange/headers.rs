//! Which headers cross, and which belong to one connection only.

use hyper::{
    HeaderMap, Method, Response,
    body::Body,
    header::{
        ALT_SVC, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName, HeaderValue,
        IF_RANGE, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};

/// Headers that are about one connection (RFC 9110, 7.6.1). `Expect` is answered by the server of HTTP here.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    EXPECT,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Headers for a proxy, and from one.
const PROXY: &str = "proxy-";

/// Headers by which a request asks some servers for another method or path than its own, with `-` for `_`.
const OVERRIDES: [&str; 6] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
];

/// Drops what asks for another method or path than the one that was decided on, in every spelling.
pub(super) fn drop_overrides(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers
        .keys()
        .filter(|name| OVERRIDES.contains(&name.as_str().replace('_', "-").as_str()))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// Leaves of a request what is for the server itself. Who it is for is said anew, from what was decided.
pub(super) fn for_upstream<B: Body>(headers: &mut HeaderMap, body: &B, searched: bool) {
    drop_hop_by_hop(headers);
    headers.remove(HOST);
    join_cookies(headers);
    // The length is the one by which the body was read, not what else the head may say.
    let said = headers.remove(CONTENT_LENGTH).is_some();
    if let Some(length) = body.size_hint().exact() {
        if said || length > 0 {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
    } else {
        // Said outright: else the body of a GET would be left out. HTTP/2 drops it again.
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if searched {
        // An answer in pieces may hide half of a secret in each.
        headers.remove(RANGE);
        headers.remove(IF_RANGE);
    }
}

/// Leaves of an answer what is for the program. `Alt-Svc` would send it to protocols that do not exist here.
pub(crate) fn for_program(headers: &mut HeaderMap) {
    drop_hop_by_hop(headers);
    headers.remove(ALT_SVC);
}

/// Makes the length that an answer claims the one by which its body is read.
pub(crate) fn settle_length<B: Body>(answer: &mut Response<B>, method: &Method) {
    // What has no body says how long it would be.
    let bodiless = method == Method::HEAD || answer.status() == hyper::StatusCode::NOT_MODIFIED;
    if bodiless {
        return;
    }
    let exact = answer.body().size_hint().exact();
    let headers = answer.headers_mut();
    if headers.remove(CONTENT_LENGTH).is_some()
        && let Some(length) = exact
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&b| b == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    let proxy = headers
        .keys()
        .filter(|name| name.as_str().starts_with(PROXY))
        .cloned()
        .collect::<Vec<_>>();
    for name in named.iter().chain(&proxy).chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// HTTP/2 may cut `Cookie` into several, which HTTP/1 must not see (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let pieces: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if pieces.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&pieces.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Empty, Full, StreamBody};
    use hyper::body::{Bytes, Frame};

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            })
            .collect()
    }

    fn sent<B: Body>(mut headers: HeaderMap, body: &B) -> Vec<String> {
        for_upstream(&mut headers, body, false);
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        headers.iter().map(line).collect()
    }

    #[test]
    fn what_asks_for_another_method_or_path_is_dropped_in_every_spelling() {
        let mut headers = HeaderMap::new();
        for name in [
            "X-HTTP-Method-Override",
            "x_http_method_override",
            "X-Original_URL",
            "x-rewrite-url",
            "accept",
        ] {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.insert(name, HeaderValue::from_static("x"));
        }
        drop_overrides(&mut headers);
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["accept"]);
    }

    #[test]
    fn a_header_that_the_connection_names_stays_behind() {
        let headers = headers(&[
            ("connection", "close, X-One , x-two,,no name"),
            ("connection", "x-three"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("x-four", "4"),
            ("host", "files.lab.test"),
            ("expect", "100-continue"),
            ("proxy-connection", "keep-alive"),
            ("proxy-anything", "x"),
        ]);
        assert_eq!(sent(headers, &Empty::<Bytes>::new()), ["x-four: 4"]);
    }

    #[test]
    fn the_length_is_that_of_the_body() {
        let none = Empty::<Bytes>::new();
        let three = Full::new(Bytes::from_static(b"abc"));
        let pieces = futures_util::stream::empty::<Result<Frame<Bytes>, std::io::Error>>();
        let open = StreamBody::new(pieces);
        let said = || headers(&[("content-length", "7"), ("content-length", "8")]);
        assert_eq!(sent(said(), &three), ["content-length: 3"]);
        assert_eq!(sent(said(), &none), ["content-length: 0"]);
        assert_eq!(sent(HeaderMap::new(), &three), ["content-length: 3"]);
        assert!(sent(HeaderMap::new(), &none).is_empty());
        assert_eq!(sent(said(), &open), ["transfer-encoding: chunked"]);
    }

    #[test]
    fn an_answer_claims_the_length_that_it_has() {
        let settled = |method: Method, status: u16, body: &'static [u8]| {
            let mut answer = Response::new(Full::new(Bytes::from_static(body)));
            *answer.status_mut() = status.try_into().unwrap();
            answer.headers_mut().append(CONTENT_LENGTH, 7.into());
            answer.headers_mut().append(CONTENT_LENGTH, 7.into());
            settle_length(&mut answer, &method);
            let said = answer.headers().get_all(CONTENT_LENGTH).iter();
            said.map(|value| value.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(settled(Method::GET, 200, b"abc"), ["3"]);
        assert_eq!(settled(Method::HEAD, 200, b"")[0], "7");
        assert_eq!(settled(Method::GET, 304, b"")[0], "7");
    }
}
