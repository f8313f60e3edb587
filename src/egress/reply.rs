//! What a program is told when something does not go out, or does not come back.
//!
//! Never holds what a program sent but in canonical form.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use super::dial::UpstreamFailure;
use crate::{policy::EgressDenial, types::Endpoint};

/// The fatal alert of TLS with which a connection is denied.
pub(super) const ALERT_ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
/// The fatal alert of TLS for a server that cannot be reached.
pub(super) const ALERT_INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// How long the last words to a program may take, and how much of what it still sends is thrown away meanwhile. A
/// socket that is closed with bytes unread is reset, and the words are lost.
const LAST_WORDS: Duration = Duration::from_secs(1);
const MAX_DRAINED_BYTES: usize = 256 * 1024;

/// Writes the last bytes of a connection, and sees to it that they arrive.
pub(super) async fn send<T: AsyncRead + AsyncWrite + Unpin>(io: &mut T, bytes: &[u8]) {
    let words = async {
        io.write_all(bytes).await?;
        io.shutdown().await?;
        let mut drained = 0;
        let mut unread = [0; 4096];
        while drained < MAX_DRAINED_BYTES {
            match io.read(&mut unread).await? {
                0 => break,
                read => drained += read,
            }
        }
        std::io::Result::Ok(())
    };
    // Whoever does not listen is not told.
    let _ = timeout(LAST_WORDS, words).await;
}

/// An answer of ours in the place of a server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    status: u16,
    /// The reason phrase: names the reason, for programs that show nothing but the status line.
    phrase: String,
    body: String,
}

impl Reply {
    /// 403: policy.
    pub(super) fn denied(denial: EgressDenial, endpoint: Option<&Endpoint>) -> Self {
        Self::new(
            403,
            "egress_denied",
            denial.reason(),
            &denial.to_string(),
            endpoint,
        )
    }

    /// 502 or 504: the other side.
    pub(super) fn failed(failure: UpstreamFailure, endpoint: Option<&Endpoint>) -> Self {
        let words = failure.to_string();
        Self::new(
            failure.status(),
            "egress_failed",
            failure.reason(),
            &words,
            endpoint,
        )
    }

    pub(super) fn new(
        status: u16,
        error: &str,
        reason: &str,
        message: &str,
        endpoint: Option<&Endpoint>,
    ) -> Self {
        let mut body = serde_json::json!({"error": error, "reason": reason, "message": message});
        if let Some(endpoint) = endpoint {
            body["host"] = endpoint.host.to_string().into();
            body["port"] = endpoint.port.into();
        }
        Self {
            status,
            phrase: format!("belljar {reason}"),
            body: format!("{body}\n"),
        }
    }

    /// For a server of HTTP. Its connection should be closed where the request's body was not read.
    pub(super) fn response(&self) -> hyper::Response<Full<Bytes>> {
        let mut response = hyper::Response::new(Full::from(self.body.clone()));
        if let Ok(status) = hyper::StatusCode::from_u16(self.status) {
            *response.status_mut() = status;
        }
        if let Ok(phrase) = hyper::ext::ReasonPhrase::try_from(self.phrase.as_bytes()) {
            response.extensions_mut().insert(phrase);
        }
        let json = hyper::header::HeaderValue::from_static("application/json");
        response
            .headers_mut()
            .insert(hyper::header::CONTENT_TYPE, json);
        response
    }

    /// As HTTP/1.1 on the wire, after which the connection ends.
    pub(super) fn raw(&self) -> Vec<u8> {
        format!(
            "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
            self.status,
            self.phrase,
            self.body.len(),
            self.body
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::egress::fixtures::endpoint;

    #[test]
    fn a_denial_is_a_403_that_a_program_and_a_person_can_read() {
        let reply = Reply::denied(
            EgressDenial::HostNotAllowed,
            Some(&endpoint("[2606:4700::1]:443")),
        );
        let raw = String::from_utf8(reply.raw()).unwrap();
        let (head, body) = raw.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 belljar host_not_allowed\r\n"));
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(head.contains("Connection: close"));
        assert_eq!(
            body,
            "{\"error\":\"egress_denied\",\"reason\":\"host_not_allowed\",\
            \"message\":\"the egress profile does not allow this host and port\",\
            \"host\":\"[2606:4700::1]\",\"port\":443}\n"
        );
        let response = reply.response();
        assert_eq!(response.status(), 403);
        let phrase = response.extensions().get::<hyper::ext::ReasonPhrase>();
        assert_eq!(phrase.unwrap().as_bytes(), b"belljar host_not_allowed");
    }

    #[test]
    fn a_failure_is_no_denial() {
        for (failure, start) in [
            (
                UpstreamFailure::Unreachable,
                "HTTP/1.1 502 belljar upstream_unreachable\r\n",
            ),
            (
                UpstreamFailure::Timeout,
                "HTTP/1.1 504 belljar upstream_timeout\r\n",
            ),
        ] {
            let raw = String::from_utf8(Reply::failed(failure, None).raw()).unwrap();
            assert!(raw.starts_with(start), "{raw}");
            assert!(raw.contains("\"error\":\"egress_failed\""));
            assert!(!raw.contains("\"host\""));
        }
    }

    #[tokio::test]
    async fn the_last_words_arrive_although_the_program_still_sends() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let sending = async move {
            far.write_all(&[7; 1000]).await.unwrap();
            far.shutdown().await.unwrap();
            let mut got = [0; 4];
            far.read_exact(&mut got).await.unwrap();
            got
        };
        let ((), got) = tokio::join!(send(&mut near, b"gone"), sending);
        assert_eq!(&got, b"gone");
    }
}
