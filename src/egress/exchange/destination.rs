//! Where a request goes: said once by its connection or by itself, and contradicted by nothing.

use hyper::{
    Method, Request,
    header::{HOST, HeaderValue},
    http::uri::Scheme as UriScheme,
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

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// How the server is spoken to.
    pub(super) scheme: Scheme,
    /// The server.
    pub(super) endpoint: Endpoint,
}

/// A request that goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Astray {
    /// What is known of where it should have gone.
    pub(super) target: Result<Destination, Vec<u8>>,
    pub(super) denial: EgressDenial,
}

impl Way {
    /// The endpoint of the connection, if that has one.
    pub(in crate::egress) fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Proxy => None,
            Self::Plain(endpoint) | Self::Tls(endpoint) => Some(endpoint),
        }
    }

    /// What a denial is about of a request whose head was refused; `line` is its first.
    pub(in crate::egress) fn refused<'a>(&'a self, line: &'a [u8]) -> Refused<'a> {
        let to = match self {
            Self::Proxy => None,
            Self::Plain(endpoint) => Some((Scheme::Http, endpoint)),
            Self::Tls(endpoint) => Some((Scheme::Https, endpoint)),
        };
        Refused::Head(to, line)
    }

    /// Where a request goes. Everything in it that names a host has to name the same.
    ///
    /// # Errors
    /// [`Astray`]: not recorded yet.
    pub(super) fn destination<B>(&self, request: &Request<B>) -> Result<Destination, Astray> {
        let destination = match self {
            Self::Proxy => named(request)?,
            Self::Plain(endpoint) => Destination {
                scheme: Scheme::Http,
                endpoint: endpoint.clone(),
            },
            Self::Tls(endpoint) => Destination {
                scheme: Scheme::Https,
                endpoint: endpoint.clone(),
            },
        };
        match destination.contradiction(request) {
            None => Ok(destination),
            Some(denial) => Err(Astray {
                target: Ok(destination),
                denial,
            }),
        }
    }
}

/// What the target of a request to a proxy names. The way to the proxy is within the sandbox and in the clear; what is
/// behind it is spoken to as the target says.
fn named<B>(request: &Request<B>) -> Result<Destination, Astray> {
    let uri = request.uri();
    let scheme = match uri.scheme() {
        Some(scheme) if *scheme == UriScheme::HTTP => Some(Scheme::Http),
        Some(scheme) if *scheme == UriScheme::HTTPS => Some(Scheme::Https),
        _ => None,
    };
    let (Some(scheme), Some(authority)) = (scheme, uri.authority()) else {
        return Err(Astray {
            target: Err(Vec::new()),
            denial: EgressDenial::Protocol,
        });
    };
    match Endpoint::parse(authority.as_str(), Some(scheme.default_port())) {
        Ok(endpoint) => Ok(Destination { scheme, endpoint }),
        Err(error) => Err(Astray {
            target: Err(authority.as_str().as_bytes().to_vec()),
            denial: EgressDenial::HostSyntax(error),
        }),
    }
}

impl Destination {
    fn contradiction<B>(&self, request: &Request<B>) -> Option<EgressDenial> {
        if forbidden(request.method()) {
            return Some(EgressDenial::ForbiddenMethod);
        }
        let scheme = match self.scheme {
            Scheme::Https => UriScheme::HTTPS,
            Scheme::Http => UriScheme::HTTP,
        };
        if request.uri().scheme().is_some_and(|said| *said != scheme) {
            return Some(EgressDenial::SchemeNotAllowed);
        }
        let authority = request.uri().authority();
        let hosts = request.headers().get_all(HOST).iter();
        let mut names = authority
            .map(|said| said.as_str().as_bytes())
            .into_iter()
            .chain(hosts.map(HeaderValue::as_bytes))
            .peekable();
        let silent = names.peek().is_none();
        if silent || !names.all(|name| self.is(name)) {
            return Some(EgressDenial::HostMismatch);
        }
        None
    }

    fn is(&self, name: &[u8]) -> bool {
        std::str::from_utf8(name)
            .ok()
            .and_then(|name| Endpoint::parse(name, Some(self.scheme.default_port())).ok())
            .is_some_and(|name| name == self.endpoint)
    }
}

/// Methods that are no requests to a server, in any spelling.
fn forbidden(method: &Method) -> bool {
    [Method::CONNECT, Method::TRACE]
        .iter()
        .any(|never| method.as_str().eq_ignore_ascii_case(never.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::parse(text, None).unwrap()
    }

    fn to(scheme: Scheme, text: &str) -> Destination {
        Destination {
            scheme,
            endpoint: endpoint(text),
        }
    }

    fn request(method: &str, uri: &str, hosts: &[&str]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    fn denial(way: &Way, request: &Request<()>) -> Option<EgressDenial> {
        way.destination(request).err().map(|astray| astray.denial)
    }

    #[test]
    fn a_request_may_name_its_host_in_every_spelling_of_the_same() {
        let way = Way::Tls(endpoint("files.lab.test:443"));
        for host in [
            "files.lab.test",
            "files.lab.test:443",
            "FILES.Lab.Test",
            "files.lab.test.:443",
        ] {
            assert_eq!(denial(&way, &request("GET", "/", &[host])), None, "{host}");
        }
        let absolute = request("GET", "https://files.lab.test/", &["files.lab.test:443"]);
        assert_eq!(
            way.destination(&absolute),
            Ok(to(Scheme::Https, "files.lab.test:443"))
        );
        let address = Way::Plain(endpoint("127.0.0.1:80"));
        let spelt = request("GET", "/", &["0x7f.1"]);
        assert_eq!(denial(&address, &spelt), None);
    }

    #[test]
    fn a_request_that_names_another_host_or_none_goes_nowhere() {
        let way = Way::Tls(endpoint("files.lab.test:443"));
        for hosts in [
            &[][..],
            &[""],
            &["other.lab.test"],
            &["files.lab.test:80"],
            &["files.lab.test", "other.lab.test"],
            &["user@files.lab.test"],
            &["files.lab.test/"],
            &["files.lab.test:443:443"],
            &["xfiles.lab.test"],
            &["files.lab.test.other"],
        ] {
            let denied = denial(&way, &request("GET", "/", hosts));
            assert_eq!(denied, Some(EgressDenial::HostMismatch), "{hosts:?}");
        }
        let inside = request("GET", "https://other.lab.test/", &["files.lab.test"]);
        assert_eq!(denial(&way, &inside), Some(EgressDenial::HostMismatch));
    }

    #[test]
    fn a_request_keeps_the_scheme_of_its_connection() {
        let plain = request("GET", "http://files.lab.test/", &["files.lab.test"]);
        let secure = request("GET", "https://files.lab.test/", &["files.lab.test"]);
        let not_allowed = Some(EgressDenial::SchemeNotAllowed);
        let (tls, port_80) = (
            endpoint("files.lab.test:443"),
            endpoint("files.lab.test:80"),
        );
        assert_eq!(denial(&Way::Tls(tls), &plain), not_allowed);
        assert_eq!(denial(&Way::Plain(port_80), &secure), not_allowed);
        assert_eq!(denial(&Way::Proxy, &secure), None);
        assert_eq!(denial(&Way::Proxy, &plain), None);
    }

    #[test]
    fn what_is_no_request_to_a_server_goes_nowhere_in_any_spelling() {
        let way = Way::Tls(endpoint("files.lab.test:443"));
        for method in ["CONNECT", "TRACE", "trace", "Connect"] {
            let denied = denial(&way, &request(method, "/", &["files.lab.test"]));
            assert_eq!(denied, Some(EgressDenial::ForbiddenMethod), "{method}");
        }
    }

    #[test]
    fn a_request_to_the_proxy_says_itself_where_it_goes() {
        let sent = |uri: &str| Way::Proxy.destination(&request("GET", uri, &["files.lab.test"]));
        assert_eq!(
            sent("http://files.lab.test/a"),
            Ok(to(Scheme::Http, "files.lab.test:80"))
        );
        assert_eq!(
            sent("https://files.lab.test/a"),
            Ok(to(Scheme::Https, "files.lab.test:443"))
        );
        let other = sent("ftp://files.lab.test/a").unwrap_err();
        assert_eq!(other.denial, EgressDenial::Protocol);
        assert_eq!(sent("/a").unwrap_err().denial, EgressDenial::Protocol);
        let astray = sent("http://user@files.lab.test/").unwrap_err();
        assert_eq!(astray.target, Err(b"user@files.lab.test".to_vec()));
        assert_eq!(astray.denial.reason(), "host_syntax");
    }
}
