//! Where a request goes: said once by its connection or by itself, and contradicted by nothing.

use hyper::{
    Method, Request,
    header::HOST,
    http::uri::{Authority, Scheme as UriScheme},
};

use crate::{config::Scheme, egress::ledger::Refused, policy::EgressDenial, types::Endpoint};

/// How a request came, which says where it can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::egress) enum Way {
    /// To the proxy itself, in the clear: each request names its target.
    Proxy,
    /// Over a plain connection to this endpoint.
    Plain(Endpoint),
    /// Inside of TLS with this endpoint.
    Tls(Endpoint),
}

/// A request that goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Astray {
    /// What is known of where it should have gone.
    pub(super) target: Result<Endpoint, Vec<u8>>,
    pub(super) denial: EgressDenial,
}

impl Way {
    /// How the server is spoken to.
    pub(in crate::egress) fn scheme(&self) -> Scheme {
        match self {
            Self::Proxy | Self::Plain(_) => Scheme::Http,
            Self::Tls(_) => Scheme::Https,
        }
    }

    /// The endpoint of the connection, if that has one.
    pub(in crate::egress) fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Proxy => None,
            Self::Plain(endpoint) | Self::Tls(endpoint) => Some(endpoint),
        }
    }

    /// What a denial is about of which no more than the way is known.
    pub(in crate::egress) fn refused(&self) -> Refused<'_> {
        self.endpoint()
            .map_or(Refused::Unparsed(b""), Refused::Endpoint)
    }

    /// Where a request goes. Everything in it that names a host has to name the same.
    ///
    /// # Errors
    /// [`Astray`]: not recorded yet.
    pub(super) fn destination<B>(&self, request: &Request<B>) -> Result<Endpoint, Astray> {
        let authority = request.uri().authority();
        let endpoint = match self.endpoint() {
            Some(endpoint) => endpoint.clone(),
            None => self.named(authority)?,
        };
        match self.contradiction(&endpoint, request) {
            None => Ok(endpoint),
            Some(denial) => Err(Astray {
                target: Ok(endpoint),
                denial,
            }),
        }
    }

    /// The endpoint that the target of a proxy's request names.
    fn named(&self, authority: Option<&Authority>) -> Result<Endpoint, Astray> {
        let authority = authority.ok_or(Astray {
            target: Err(Vec::new()),
            denial: EgressDenial::Protocol,
        })?;
        Endpoint::parse(authority.as_str(), Some(self.default_port())).map_err(|error| Astray {
            target: Err(authority.as_str().as_bytes().to_vec()),
            denial: EgressDenial::HostSyntax(error),
        })
    }

    fn contradiction<B>(&self, endpoint: &Endpoint, request: &Request<B>) -> Option<EgressDenial> {
        if forbidden(request.method()) {
            return Some(EgressDenial::ForbiddenMethod);
        }
        let scheme = match self.scheme() {
            Scheme::Https => UriScheme::HTTPS,
            Scheme::Http => UriScheme::HTTP,
        };
        if request.uri().scheme().is_some_and(|said| *said != scheme) {
            return Some(EgressDenial::SchemeNotAllowed);
        }
        let authority = request
            .uri()
            .authority()
            .map(|said| said.as_str().as_bytes());
        let hosts = request
            .headers()
            .get_all(HOST)
            .iter()
            .map(|said| said.as_bytes());
        let mut names = authority.into_iter().chain(hosts).peekable();
        let named = names.peek().is_some();
        if named && names.all(|name| self.is(endpoint, name)) {
            None
        } else {
            Some(EgressDenial::HostMismatch)
        }
    }

    fn is(&self, endpoint: &Endpoint, name: &[u8]) -> bool {
        std::str::from_utf8(name)
            .ok()
            .and_then(|name| Endpoint::parse(name, Some(self.default_port())).ok())
            .is_some_and(|name| name == *endpoint)
    }

    fn default_port(&self) -> u16 {
        match self.scheme() {
            Scheme::Https => 443,
            Scheme::Http => 80,
        }
    }
}

/// Methods that are no requests to a server, in any spelling.
fn forbidden(method: &Method) -> bool {
    [Method::CONNECT, Method::TRACE]
        .iter()
        .any(|never| method.as_str().eq_ignore_ascii_case(never.as_str()))
}
