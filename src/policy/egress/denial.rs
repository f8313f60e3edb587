//! Why something does not go out: a constant name for programs, the record and tests, and words that help.

use crate::types::HostError;

/// Why a connection or a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EgressDenial {
    /// The host that was asked for is none.
    #[error("the host {0}")]
    HostSyntax(HostError),
    /// No rule names this host and port.
    #[error("the egress profile does not allow this host and port")]
    HostNotAllowed,
    /// A rule names the host, and none this method.
    #[error("the egress profile does not allow this method here")]
    MethodNotAllowed,
    /// A rule names the host and the method, and none this path.
    #[error("the egress profile does not allow this path here")]
    PathNotAllowed,
    /// The path has more than one meaning: `..`, encoded separators, control characters.
    #[error("the path can be read in more than one way")]
    PathAmbiguous,
    /// Every address of the name is one that is never dialled, or only where the operator opened it.
    #[error(
        "the host's address is private, local, reserved or of cloud metadata, and not one that the operator opened with allow_private"
    )]
    AddressDenied,
    /// The rule is about HTTPS, and what came is no TLS; or the other way round.
    #[error(
        "this host may be spoken to only in the way that the egress profile says: https, unless it says http"
    )]
    SchemeNotAllowed,
    /// What came is not the start of TLS.
    #[error("this is not TLS")]
    NotTls,
    /// TLS without a server name.
    #[error("the TLS connection names no server")]
    ServerNameMissing,
    /// TLS with another server name than was asked for.
    #[error("the TLS connection names another server than the one that was asked for")]
    ServerNameMismatch,
    /// TLS with an encrypted server name.
    #[error("the TLS connection hides which server it names (encrypted client hello)")]
    EncryptedClientHello,
    /// `Host` or `:authority` is another one than the connection's.
    #[error("the request names another host than its connection or its target")]
    HostMismatch,
    /// The head of the request is malformed, or can be read in more than one way.
    #[error("the request's head is malformed or can be read in more than one way")]
    MalformedHead,
    /// A method or a target that is longer than what the record keeps.
    #[error("the request's method or target is longer than what can be recorded")]
    RequestLineTooLong,
    /// Both lengths, two lengths, or a transfer coding other than `chunked` alone.
    #[error("the length of the request can be read in more than one way")]
    AmbiguousLength,
    /// A change of protocol: `Upgrade`, h2c, WebSocket.
    #[error("a change of protocol is not allowed")]
    Upgrade,
    /// `TRACE`, or `CONNECT` inside a connection.
    #[error("this method never passes")]
    ForbiddenMethod,
    /// A protocol that does not exist here: SOCKS `BIND` and `UDP`, SOCKS 4, and whatever is neither HTTP nor SOCKS 5.
    #[error("this protocol is not spoken here: use an HTTP proxy or SOCKS 5 CONNECT")]
    Protocol,
    /// More requests than the budget has.
    #[error("this run has used up its number of requests")]
    TooManyRequests,
    /// More connections at a time than the budget has.
    #[error("too many connections at once")]
    TooManyConnections,
    /// More frames of HTTP/2 that ask for nothing than one connection may send: pings, settings, resets, empty pieces.
    #[error("the connection sent more HTTP/2 frames without a request than it may")]
    TooManyFrames,
    /// More bytes sent than the budget has.
    #[error("this run has sent as many bytes as it may")]
    TooMuchSent,
    /// More bytes received than the budget has.
    #[error("this run has received as many bytes as it may")]
    TooMuchReceived,
    /// Longer than one connection may last.
    #[error("the connection lasted as long as it may")]
    TooLong,
    /// The answer cannot be searched for secrets, and the profile has some.
    #[error("the answer is encoded in a way that cannot be searched for secrets")]
    Uninspectable,
    /// It could not be recorded, so it is not done.
    #[error("the request could not be recorded")]
    NotRecorded,
    /// The run is over.
    #[error("the run is over")]
    Closed,
}

impl EgressDenial {
    /// The constant name of the reason.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::HostSyntax(_) => "host_syntax",
            Self::HostNotAllowed => "host_not_allowed",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::PathNotAllowed => "path_not_allowed",
            Self::PathAmbiguous => "path_ambiguous",
            Self::AddressDenied => "address_denied",
            Self::SchemeNotAllowed => "scheme_not_allowed",
            Self::NotTls => "not_tls",
            Self::ServerNameMissing => "server_name_missing",
            Self::ServerNameMismatch => "server_name_mismatch",
            Self::EncryptedClientHello => "encrypted_client_hello",
            Self::HostMismatch => "host_mismatch",
            Self::MalformedHead => "malformed_head",
            Self::RequestLineTooLong => "request_line_too_long",
            Self::AmbiguousLength => "ambiguous_length",
            Self::Upgrade => "upgrade",
            Self::ForbiddenMethod => "forbidden_method",
            Self::Protocol => "protocol",
            Self::TooManyRequests => "too_many_requests",
            Self::TooManyConnections => "too_many_connections",
            Self::TooManyFrames => "too_many_frames",
            Self::TooMuchSent => "too_much_sent",
            Self::TooMuchReceived => "too_much_received",
            Self::TooLong => "too_long",
            Self::Uninspectable => "uninspectable",
            Self::NotRecorded => "not_recorded",
            Self::Closed => "closed",
        }
    }
}
