//! What a program is told when something does not go out, or does not come back.
//!
//! Never holds what a program sent but in canonical form.

use bytes::Bytes;
use http_body_util::Full;

use super::dial::UpstreamFailure;
use crate::{policy::EgressDenial, types::Endpoint};

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
