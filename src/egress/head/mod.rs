//! Heads of HTTP/1 requests from inside: read in one way only, or refused.
//!
//! A head is split by `httparse`, the same that the server of HTTP splits it with later, and held to rules that leave
//! nothing to interpretation: what two servers could read differently is how one request is hidden in another.

mod guard;

pub(crate) use guard::Guard;

use hyper::Uri;

use crate::policy::EgressDenial;

/// The longest head, in bytes. Stops a head without an end from filling the memory.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The most headers of one head. Stops a head that is all comparisons.
pub const MAX_HEADERS: usize = 100;

/// One head that can be read in one way only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The method, as it came.
    pub method: &'a str,
    /// What follows the method, as it came: visible ASCII.
    pub target: &'a str,
    /// `Host`, if there.
    pub host: Option<&'a str>,
    /// What follows the head, as far as it says; nothing where it says nothing.
    pub length: Option<Length>,
}

/// How long the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This many bytes.
    Bytes(u64),
    /// Chunks, of which only the server of HTTP finds the end.
    Chunked,
}

/// Where the first head in `bytes` ends, if it does. `from` is where to go on looking: the length at the last call.
///
/// # Errors
/// [`EgressDenial::MalformedHead`] as soon as it can be no head: it begins with no method, a line ends in other than
/// CR LF, or it is longer than [`MAX_HEAD_BYTES`].
pub fn end(bytes: &[u8], from: usize) -> Result<Option<usize>, EgressDenial> {
    // An empty line before a head is skipped by some and ends a head for others.
    if bytes.first().is_some_and(|b| !b.is_ascii_alphabetic()) {
        return Err(EgressDenial::MalformedHead);
    }
    for at in from..bytes.len().min(MAX_HEAD_BYTES) {
        let before = &bytes[..at];
        let broken = (bytes[at] == b'\n') != before.ends_with(b"\r");
        if broken {
            return Err(EgressDenial::MalformedHead);
        }
        if bytes[at] == b'\n' && before.ends_with(b"\r\n\r") {
            return Ok(Some(at + 1));
        }
    }
    if bytes.len() >= MAX_HEAD_BYTES {
        return Err(EgressDenial::MalformedHead);
    }
    Ok(None)
}

/// The first line of a head, or of what came instead of one: what is shown of it where it is refused.
#[must_use]
pub fn first_line(bytes: &[u8]) -> &[u8] {
    bytes
        .split(|b| *b == b'\r' || *b == b'\n')
        .next()
        .unwrap_or_default()
}

impl<'a> Head<'a> {
    /// Reads one whole head, which [`end`] found.
    ///
    /// # Errors
    /// The [`EgressDenial`] for what is malformed or ambiguous in it, or asks for another protocol.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EgressDenial> {
        if end(bytes, 0)? != Some(bytes.len()) {
            return Err(EgressDenial::MalformedHead);
        }
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let status = request
            .parse(bytes)
            .map_err(|_| EgressDenial::MalformedHead)?;
        let (Some(method), Some(target), true) =
            (request.method, request.path, status.is_complete())
        else {
            return Err(EgressDenial::MalformedHead);
        };
        if !target.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(EgressDenial::MalformedHead);
        }
        let mut head = Self {
            method,
            target,
            host: None,
            length: None,
        };
        for header in request.headers.iter() {
            head.take(header)?;
        }
        // HTTP/1.0 has no chunks, and its servers read on to the end.
        if head.length == Some(Length::Chunked) && request.version != Some(1) {
            return Err(EgressDenial::AmbiguousLength);
        }
        Ok(head)
    }

    /// Reads one whole head of a request to a server, not to a proxy's `CONNECT`.
    ///
    /// # Errors
    /// As [`Self::parse`]; also a method that never passes, no `Host`, and a target that is none.
    pub fn parse_request(bytes: &'a [u8]) -> Result<Self, EgressDenial> {
        let head = Self::parse(bytes)?;
        let never = ["CONNECT", "TRACE"];
        if never
            .iter()
            .any(|never| head.method.eq_ignore_ascii_case(never))
        {
            return Err(EgressDenial::ForbiddenMethod);
        }
        // What is no target to the server of HTTP it would answer by itself, past the record.
        if head.host.is_none() || head.target.parse::<Uri>().is_err() {
            return Err(EgressDenial::MalformedHead);
        }
        Ok(head)
    }

    fn take(&mut self, header: &httparse::Header<'a>) -> Result<(), EgressDenial> {
        // Servers behind CGI and its children read `_` as `-`.
        let name = header.name.to_ascii_lowercase().replace('_', "-");
        let plain = !header.name.contains('_');
        let value = header.value.trim_ascii();
        match name.as_str() {
            "content-length" => {
                let length = decimal(value).filter(|_| plain && self.length.is_none());
                let length = length.ok_or(EgressDenial::AmbiguousLength)?;
                self.length = Some(Length::Bytes(length));
            }
            "transfer-encoding" => {
                let chunked = value.eq_ignore_ascii_case(b"chunked");
                if !chunked || !plain || self.length.is_some() {
                    return Err(EgressDenial::AmbiguousLength);
                }
                self.length = Some(Length::Chunked);
            }
            "host" => {
                let host = std::str::from_utf8(value)
                    .ok()
                    .filter(|host| !host.is_empty());
                if self.host.is_some() || host.is_none() {
                    return Err(EgressDenial::MalformedHead);
                }
                self.host = host;
            }
            "upgrade" | "http2-settings" => return Err(EgressDenial::Upgrade),
            "connection" | "proxy-connection" => connection_options(value)?,
            "expect" if !value.eq_ignore_ascii_case(b"100-continue") => {
                return Err(EgressDenial::MalformedHead);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The options of `Connection`: each names a header that ends here. None may end the one that says where the request
/// goes or where it stops.
fn connection_options(value: &[u8]) -> Result<(), EgressDenial> {
    for option in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if is("upgrade") || is("http2-settings") {
            return Err(EgressDenial::Upgrade);
        }
        if is("host") || is("content-length") || is("transfer-encoding") {
            return Err(EgressDenial::MalformedHead);
        }
    }
    Ok(())
}

/// A number of digits alone: no sign, no list, no white space.
fn decimal(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lines: &[&str]) -> Vec<u8> {
        format!("{}\r\n\r\n", lines.join("\r\n")).into_bytes()
    }

    fn refused(lines: &[&str]) -> EgressDenial {
        let bytes = of(lines);
        match Head::parse_request(&bytes) {
            Ok(head) => panic!("{lines:?} is read as {head:?}"),
            Err(denial) => denial,
        }
    }

    #[test]
    fn a_plain_head_is_read() {
        let bytes = of(&[
            "POST /a?b HTTP/1.1",
            "Host: x.org",
            "Content-Length: 12",
            "Accept: */*",
        ]);
        assert_eq!(
            Head::parse_request(&bytes),
            Ok(Head {
                method: "POST",
                target: "/a?b",
                host: Some("x.org"),
                length: Some(Length::Bytes(12)),
            })
        );
        let bytes = of(&[
            "PUT / HTTP/1.1",
            "host: x.org",
            "transfer-encoding: Chunked",
            "Expect: 100-continue",
        ]);
        assert_eq!(
            Head::parse_request(&bytes).unwrap().length,
            Some(Length::Chunked)
        );
    }

    #[test]
    fn what_is_shown_of_a_head_is_its_first_line() {
        assert_eq!(
            first_line(b"GET /a HTTP/1.1\r\nA: b\r\n\r\n"),
            b"GET /a HTTP/1.1"
        );
        assert_eq!(first_line(b"nothing\nA: b c"), b"nothing");
        assert_eq!(first_line(b""), b"");
    }

    #[test]
    fn both_lengths_and_doubled_lengths_and_other_codings_are_refused() {
        for headers in [
            &["Content-Length: 5", "Transfer-Encoding: chunked"][..],
            &["Transfer-Encoding: chunked", "Content-Length: 5"],
            &["Content-Length: 5", "Content-Length: 5"],
            &["Content-Length: 5", "content-length: 6"],
            &["Content-Length: 5, 5"],
            &["Content-Length: +5"],
            &["Content-Length: -5"],
            &["Content-Length: 5 5"],
            &["Content-Length: 0x5"],
            &["Content-Length:"],
            &["Content-Length: 99999999999999999999999"],
            &["Content_Length: 5"],
            &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
            &["Transfer-Encoding: gzip, chunked"],
            &["Transfer-Encoding: chunked, identity"],
            &["Transfer-Encoding: identity"],
            &["Transfer-Encoding: xchunked"],
            &["Transfer-Encoding: \u{b}chunked"],
            &["Transfer-Encoding:"],
            &["Transfer_Encoding: chunked"],
        ] {
            let lines = [&["POST / HTTP/1.1", "Host: x.org"][..], headers].concat();
            let denial = refused(&lines);
            let odd = headers[0].contains('\u{b}');
            let expected = if odd {
                EgressDenial::MalformedHead
            } else {
                EgressDenial::AmbiguousLength
            };
            assert_eq!(denial, expected, "{headers:?}");
        }
    }

    #[test]
    fn chunks_in_http_1_0_are_refused() {
        assert_eq!(
            refused(&[
                "POST / HTTP/1.0",
                "Host: x.org",
                "Transfer-Encoding: chunked"
            ]),
            EgressDenial::AmbiguousLength
        );
    }

    #[test]
    fn a_head_that_can_be_read_in_two_ways_is_refused() {
        for lines in [
            // A folded line, white space before a colon, no colon, a name with a space.
            &["GET / HTTP/1.1", "Host: x.org", "X: a", " b"][..],
            &[
                "GET / HTTP/1.1",
                "Host: x.org",
                "X: a",
                "\tTransfer-Encoding: chunked",
            ],
            &["GET / HTTP/1.1", " Host: x.org"],
            &["GET / HTTP/1.1", "Host : x.org"],
            &["GET / HTTP/1.1", "Host: x.org", "Content-Length : 5"],
            &["GET / HTTP/1.1", "Host: x.org", "nothing"],
            &["GET / HTTP/1.1", "Host: x.org", ": x"],
            // Bare line ends and characters that are none.
            &["GET / HTTP/1.1\nHost: x.org"],
            &["GET / HTTP/1.1", "Host: x.org\rX: y"],
            &["GET / HTTP/1.1", "Host: x.org", "X: a\0b"],
            &["GET / HTTP/1.1", "Host: x.org", "X\u{e9}: a"],
            // Request lines.
            &["GET  / HTTP/1.1", "Host: x.org"],
            &["GET / HTTP/1.1 ", "Host: x.org"],
            &["GET /a b HTTP/1.1", "Host: x.org"],
            &["GET /\u{e9} HTTP/1.1", "Host: x.org"],
            &["GET / HTTP/2.0", "Host: x.org"],
            &["GET / HTTP/1.2", "Host: x.org"],
            &["GET /", "Host: x.org"],
            &["", "GET / HTTP/1.1", "Host: x.org"],
            &["\u{16}\u{3}\u{1}"],
            // No host, two, an empty one.
            &["GET / HTTP/1.1"],
            &["GET / HTTP/1.0"],
            &["GET / HTTP/1.1", "Host: x.org", "Host: x.org"],
            &["GET / HTTP/1.1", "Host: x.org", "host: y.org"],
            &["GET / HTTP/1.1", "Host:"],
            // A header that would end what frames the request.
            &[
                "GET / HTTP/1.1",
                "Host: x.org",
                "Connection: close, Content-Length",
            ],
            &["GET / HTTP/1.1", "Host: x.org", "Connection: host"],
            &["GET / HTTP/1.1", "Host: x.org", "Expect: 200-ok"],
        ] {
            assert_eq!(refused(lines), EgressDenial::MalformedHead, "{lines:?}");
        }
    }

    #[test]
    fn a_change_of_protocol_is_refused() {
        for header in [
            "Upgrade: websocket",
            "Upgrade: h2c",
            "Connection: Upgrade",
            "Connection: keep-alive,  upgrade",
            "HTTP2-Settings: AAMAAABkAAQAAP__",
        ] {
            assert_eq!(
                refused(&["GET / HTTP/1.1", "Host: x.org", header]),
                EgressDenial::Upgrade,
                "{header}"
            );
        }
    }

    #[test]
    fn connect_inside_and_trace_are_refused() {
        for line in [
            "CONNECT y.org:443 HTTP/1.1",
            "TRACE / HTTP/1.1",
            "trace / HTTP/1.1",
        ] {
            assert_eq!(
                refused(&[line, "Host: x.org"]),
                EgressDenial::ForbiddenMethod,
                "{line}"
            );
        }
    }

    #[test]
    fn too_many_headers_and_a_head_without_an_end_are_refused() {
        let many = vec!["X: y"; MAX_HEADERS];
        let lines = [&["GET / HTTP/1.1", "Host: x.org"][..], &many].concat();
        assert_eq!(refused(&lines), EgressDenial::MalformedHead);
        let endless = [b"GET /".to_vec(), vec![b'a'; MAX_HEAD_BYTES]].concat();
        assert_eq!(end(&endless, 0), Err(EgressDenial::MalformedHead));
        assert_eq!(end(&endless[..MAX_HEAD_BYTES - 1], 0), Ok(None));
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_its_bytes_are_split() {
        let bytes = [
            of(&["GET / HTTP/1.1", "Host: x.org"]),
            b"GET /next".to_vec(),
        ]
        .concat();
        let length = bytes.len() - 9;
        for split in 0..length {
            assert_eq!(end(&bytes[..split], 0), Ok(None));
            assert_eq!(end(&bytes, split), Ok(Some(length)), "{split}");
        }
    }

    #[test]
    fn what_can_be_no_head_is_refused_at_its_first_wrong_byte() {
        for bytes in [
            &b"\r\n"[..],
            b"\n",
            b"\x16\x03",
            b" GET",
            b"GET /\n",
            b"GET /\rx",
            b"G\r\r",
        ] {
            assert_eq!(end(bytes, 0), Err(EgressDenial::MalformedHead), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn a_head_that_is_read_is_read_whole(bytes in "(GET|POST) [ -~]{1,9} HTTP/1\\.1\r\n([A-Za-z_-]{1,4}: [ -~\t]{0,6}\r?\n){0,4}\r\n") {
            let bytes = bytes.as_bytes();
            if let Ok(head) = Head::parse(bytes) {
                prop_assert_eq!(end(bytes, 0), Ok(Some(bytes.len())));
                prop_assert!(head.target.bytes().all(|b| b.is_ascii_graphic()));
            }
        }

        #[test]
        fn any_bytes_can_be_asked_about(bytes in any::<Vec<u8>>(), from in 0_usize..64) {
            let _ = end(&bytes, from.min(bytes.len()));
            let _ = Head::parse_request(&bytes);
        }
    }
}
