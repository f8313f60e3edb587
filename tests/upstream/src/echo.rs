//! What an echo says, in the forms in which an endpoint might give a secret back.

use std::{collections::HashMap, fmt::Write as _, io::Write as _};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use flate2::{Compression, write::GzEncoder, write::ZlibEncoder};
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue},
    http::request::Parts,
};
use serde_json::json;

use crate::body::Made;

/// How an echo is put.
enum Form {
    /// As it is.
    Raw,
    /// As text of another spelling.
    Spelled(fn(&[u8]) -> String),
    /// Compressed, and labelled so.
    Packed(fn(&[u8]) -> Vec<u8>, &'static str),
    /// Labelled as something that it is not.
    Labelled(&'static str),
}

/// The form of this name.
fn form(name: &str) -> Option<Form> {
    Some(match name {
        "" | "raw" => Form::Raw,
        "base64" => Form::Spelled(|bytes| STANDARD.encode(bytes)),
        "base64url" => Form::Spelled(|bytes| URL_SAFE_NO_PAD.encode(bytes)),
        "percent" => Form::Spelled(|bytes| each(bytes, "%", "")),
        "hex" => Form::Spelled(|bytes| each(bytes, "", "")),
        "json" => Form::Spelled(|bytes| format!("\"{}\"", each(bytes, "\\u00", ""))),
        "gzip" => Form::Packed(gzip, "gzip"),
        "gzip-twice" => Form::Packed(|bytes| gzip(&gzip(bytes)), "gzip, gzip"),
        "deflate" => Form::Packed(deflate, "deflate"),
        "br" => Form::Labelled("br"),
        "zstd" => Form::Labelled("zstd"),
        _ => return None,
    })
}

/// Each byte as two hexadecimal digits between these.
fn each(bytes: &[u8], before: &str, after: &str) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{before}{byte:02X}{after}");
        text
    })
}

/// A gzip member.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What HTTP calls deflate: zlib.
fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The answer to `/echo`: method, target, headers and body of the request as JSON.
///
/// `as=…` puts it into a form, `piece=n` sends it in pieces of n bytes, `type=…` names another media type, `label=…`
/// another `Content-Encoding`, and `in=headers` gives each of the request's headers back as `x-echo-…` in that form.
pub(crate) fn answer(
    parts: &Parts,
    body: &[u8],
    query: &HashMap<String, String>,
) -> Response<Made> {
    let word = |name: &str| query.get(name).map_or("", String::as_str);
    let Some(form) = form(word("as")) else {
        return crate::site::plain(StatusCode::BAD_REQUEST, "no such form");
    };
    let headers: Vec<[String; 2]> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            [
                name.to_string(),
                value.as_bytes().escape_ascii().to_string(),
            ]
        })
        .collect();
    let text = json!({
        "method": parts.method.as_str(),
        "target": parts.uri.path_and_query().map(ToString::to_string),
        "authority": parts.uri.authority().map(ToString::to_string),
        "version": format!("{:?}", parts.version),
        "headers": headers,
        "body": String::from_utf8_lossy(body),
    })
    .to_string()
    .into_bytes();
    let (bytes, label) = match &form {
        Form::Raw => (text, None),
        Form::Spelled(spell) => (spell(&text).into_bytes(), None),
        Form::Packed(pack, label) => (pack(&text), Some(*label)),
        Form::Labelled(label) => (text, Some(*label)),
    };
    let label = query.get("label").map(String::as_str).or(label);
    let media_type = match (word("type"), &form) {
        ("", Form::Spelled(_)) => "text/plain",
        ("", _) => "application/json",
        (asked, _) => asked,
    };
    let body = match word("piece").parse() {
        Ok(size) => Made::in_pieces(&bytes, size, None),
        Err(_) => Made::whole(bytes),
    };
    let mut answer = Response::new(body);
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.headers_mut().insert(name, value);
        }
    };
    set(CONTENT_TYPE, media_type);
    if let Some(label) = label {
        set(CONTENT_ENCODING, label);
    }
    if word("in") == "headers" {
        answer
            .headers_mut()
            .extend(reflected(&parts.headers, &form));
    }
    answer
}

/// Each header as `x-echo-…`; compressed forms are those of bodies, and leave a header as it is.
pub(crate) fn reflected_plainly(headers: &HeaderMap) -> HeaderMap {
    reflected(headers, &Form::Raw)
}

fn reflected(headers: &HeaderMap, form: &Form) -> HeaderMap {
    headers
        .iter()
        .filter_map(|(name, value)| {
            let name = HeaderName::try_from(format!("x-echo-{name}")).ok()?;
            let value = match form {
                Form::Spelled(spell) => HeaderValue::try_from(spell(value.as_bytes())).ok()?,
                Form::Raw | Form::Packed(..) | Form::Labelled(_) => value.clone(),
            };
            Some((name, value))
        })
        .collect()
}
