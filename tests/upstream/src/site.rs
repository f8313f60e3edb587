//! What each path does.
//!
//! | path | answer |
//! |---|---|
//! | `/` | `belljar test upstream` |
//! | `/echo` | the request as JSON; its query says in which form (`echo.rs`) |
//! | `/redirect?to=URL&code=302` | a redirect there |
//! | `/slow?ms=N` | its head late |
//! | `/drip?n=N&ms=N` | N bytes, one at a time |
//! | `/huge?mib=N`, `&chunked` | that many MiB, as `huge_byte` says |
//! | `/gzip?mib=N` | that many MiB of zeros, at most [`MAX_PACKED_MIB`], compressed; without `mib` a word |
//! | `/reset` | a part of its body, and then the connection breaks |
//! | `/headers?n=N&size=N` | N headers of that size |
//! | `/status?code=N` | that status |
//! | `/set-cookie` | two cookies |
//! | `/trailers` | a body and trailers, which hold the request's headers as `x-echo-…` |
//! | `/take` | reads the request's body to its end and says how many bytes it had |
//! | those of `raw.rs` | bytes that are no proper answer; over HTTP/2 the connection ends instead |

use std::{collections::HashMap, time::Duration};

use http_body_util::{BodyExt as _, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{
        CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, SET_COOKIE,
    },
};
use tokio::time::sleep;
use url::form_urlencoded;

use crate::{body::Made, echo};

/// The longest body that is echoed: what a test sends to be shown again is small.
const MAX_ECHO_BYTES: usize = 4 * 1024 * 1024;
/// The most that is compressed: it is made in memory.
const MAX_PACKED_MIB: u64 = 256;
/// The most headers, and the longest, that are made.
const MAX_HEADERS: u64 = 10_000;
const MAX_HEADER_BYTES: usize = 1024 * 1024;
const MIB: u64 = 1024 * 1024;

/// Answers one request.
pub(crate) async fn answer(request: Request<Incoming>) -> Response<Made> {
    let query: HashMap<String, String> =
        form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<u64>().ok());
    let ms = || Duration::from_millis(number("ms").unwrap_or_default());
    match request.uri().path() {
        "/" => plain(StatusCode::OK, "belljar test upstream"),
        "/echo" => {
            let (parts, body) = request.into_parts();
            match Limited::new(body, MAX_ECHO_BYTES).collect().await {
                Ok(body) => echo::answer(&parts, &body.to_bytes(), &query),
                Err(_) => plain(StatusCode::PAYLOAD_TOO_LARGE, "more than is echoed"),
            }
        }
        "/take" => take(request.into_body()).await,
        "/redirect" => redirect(&query),
        "/slow" => {
            sleep(ms()).await;
            plain(StatusCode::OK, "late")
        }
        "/drip" => bytes(Made::drip(number("n").unwrap_or(1), ms())),
        "/huge" => {
            let count = number("mib").unwrap_or(1).saturating_mul(MIB);
            if request.method() == Method::HEAD {
                return bytes(Made::whole(""));
            }
            bytes(Made::huge(count, !query.contains_key("chunked")))
        }
        "/gzip" => packed(number("mib")),
        "/reset" => bytes(Made::cut(b"the beginning", 1000)),
        "/headers" => headers(
            number("n").unwrap_or(1).min(MAX_HEADERS),
            number("size").unwrap_or(1),
        ),
        "/status" => {
            let code = number("code").and_then(|code| u16::try_from(code).ok());
            match code.and_then(|code| StatusCode::from_u16(code).ok()) {
                Some(status) if !status.is_informational() => plain(status, ""),
                _ => plain(StatusCode::BAD_REQUEST, "no such status"),
            }
        }
        "/set-cookie" => {
            let mut answer = plain(StatusCode::OK, "cookies");
            for cookie in ["a=1; Path=/", "b=2; Secure; HttpOnly"] {
                answer
                    .headers_mut()
                    .append(SET_COOKIE, HeaderValue::from_static(cookie));
            }
            answer
        }
        "/trailers" => trailers(request.headers()),
        _ => plain(StatusCode::NOT_FOUND, "no such path"),
    }
}

/// A short answer.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response<Made> {
    let mut answer = Response::new(Made::whole(text));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

fn bytes(body: Made) -> Response<Made> {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    answer
}

async fn take(mut body: Incoming) -> Response<Made> {
    let mut count = 0;
    while !body.is_end_stream() {
        match body.frame().await {
            Some(Ok(frame)) => count += frame.data_ref().map_or(0, bytes::Bytes::len),
            Some(Err(_)) => return plain(StatusCode::BAD_REQUEST, "the body broke off"),
            None => break,
        }
    }
    Response::new(Made::whole(count.to_string()))
}

fn redirect(query: &HashMap<String, String>) -> Response<Made> {
    let code = query.get("code").and_then(|text| text.parse().ok());
    let status = StatusCode::from_u16(code.unwrap_or(302)).unwrap_or(StatusCode::FOUND);
    let to = query.get("to").map_or("/", String::as_str);
    let Ok(to) = HeaderValue::from_str(to) else {
        return plain(StatusCode::BAD_REQUEST, "no such place");
    };
    let mut answer = plain(status, "");
    answer.headers_mut().insert(LOCATION, to);
    answer
}

fn packed(mib: Option<u64>) -> Response<Made> {
    let whole = match mib {
        Some(mib) => {
            vec![0; usize::try_from(mib.min(MAX_PACKED_MIB) * MIB).unwrap_or_default()]
        }
        None => b"unpacked".to_vec(),
    };
    let mut answer = bytes(Made::whole(echo::gzip(&whole)));
    answer
        .headers_mut()
        .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
}

fn headers(count: u64, size: u64) -> Response<Made> {
    let size = usize::try_from(size).map_or(MAX_HEADER_BYTES, |size| size.min(MAX_HEADER_BYTES));
    let mut answer = plain(StatusCode::OK, "headers");
    for number in 0..count {
        let name = HeaderName::try_from(format!("x-{number}"));
        let value = HeaderValue::try_from("v".repeat(size));
        if let (Ok(name), Ok(value)) = (name, value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

fn trailers(asked: &HeaderMap) -> Response<Made> {
    let mut after = echo::reflected_plainly(asked);
    after.insert("x-checksum", HeaderValue::from_static("done"));
    // HTTP/1.1 sends only those that it announced.
    let names: Vec<&str> = after.keys().map(HeaderName::as_str).collect();
    let names = HeaderValue::try_from(names.join(", "));
    let mut answer = bytes(Made::in_pieces(b"before the trailers", 8, Some(after)));
    if let Ok(names) = names {
        answer.headers_mut().insert("trailer", names);
    }
    answer
}
