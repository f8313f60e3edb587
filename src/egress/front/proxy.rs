//! What a program asks of an HTTP proxy.

use crate::{egress::head::Head, policy::EgressDenial, types::Endpoint};

/// What the first head of a connection asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// A connection to this one (`CONNECT`); absent: the request of this head and those behind it name their own servers.
    pub(super) connect: Option<Endpoint>,
}

/// Reads the first head of a connection.
///
/// # Errors
/// The [`EgressDenial`]: a head that is none, a target that is none, a `CONNECT` with a body or another `Host`, and
/// [`EgressDenial::Protocol`] for what is no request to a proxy.
pub(super) fn asked(head: &[u8]) -> Result<Asked, EgressDenial> {
    let head = Head::parse(head)?;
    if head.method != "CONNECT" {
        // The server of plain HTTP reads it again, and all that follow. Some clients ask a proxy so for what is behind
        // TLS too, and leave TLS to it.
        let scheme = head.target.split("://").next().unwrap_or_default();
        let known = ["http", "https"];
        return if scheme.len() < head.target.len()
            && known.iter().any(|one| scheme.eq_ignore_ascii_case(one))
        {
            Ok(Asked { connect: None })
        } else {
            Err(EgressDenial::Protocol)
        };
    }
    if head.length.is_some() {
        return Err(EgressDenial::AmbiguousLength);
    }
    let endpoint = Endpoint::parse(head.target, None).map_err(EgressDenial::HostSyntax)?;
    let host = head
        .host
        .map(|host| Endpoint::parse(host, Some(endpoint.port)));
    if host.is_some_and(|host| host.as_ref() != Ok(&endpoint)) {
        return Err(EgressDenial::HostMismatch);
    }
    Ok(Asked {
        connect: Some(endpoint),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::HostError;

    fn of(head: &str) -> Result<Option<String>, EgressDenial> {
        let head = format!("{}\r\n\r\n", head.replace('\n', "\r\n"));
        let asked = asked(head.as_bytes())?;
        Ok(asked.connect.map(|endpoint| endpoint.to_string()))
    }

    #[test]
    fn connect_names_a_host_and_a_port_in_their_one_form() {
        let to = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(
            of("CONNECT x.org:443 HTTP/1.1\nHost: x.org:443"),
            to("x.org:443")
        );
        assert_eq!(
            of("CONNECT X.Org.:443 HTTP/1.1\nHost: x.org"),
            to("x.org:443")
        );
        assert_eq!(of("CONNECT [::ffff:1.2.3.4]:80 HTTP/1.0"), to("1.2.3.4:80"));
        assert_eq!(
            of("CONNECT 0x7f.1:80 HTTP/1.1\nHost: 127.0.0.1:80"),
            to("127.0.0.1:80")
        );
    }

    #[test]
    fn connect_to_what_is_no_host_is_refused() {
        for (target, error) in [
            ("x.org", HostError::Port),
            ("x.org:0", HostError::Port),
            ("x.org:65536", HostError::Port),
            ("x.org:+443", HostError::Port),
            ("user@x.org:443", HostError::Character),
            ("x%2eorg:443", HostError::Character),
            ("[fe80::1%25eth0]:443", HostError::Address),
            ("::1:443", HostError::Address),
            ("x..org:443", HostError::Label),
            (":443", HostError::Empty),
            ("https://x.org:443", HostError::Address),
            ("x.org:443/path", HostError::Port),
            ("999.1.1.1:443", HostError::Address),
        ] {
            let denial = of(&format!("CONNECT {target} HTTP/1.1")).unwrap_err();
            assert_eq!(denial, EgressDenial::HostSyntax(error), "{target}");
        }
    }

    #[test]
    fn connect_with_another_host_is_refused() {
        for host in ["y.org:443", "x.org:80", "y.org", "x.org:443@y.org", "?"] {
            assert_eq!(
                of(&format!("CONNECT x.org:443 HTTP/1.1\nHost: {host}")),
                Err(EgressDenial::HostMismatch),
                "{host}"
            );
        }
        assert_eq!(
            of("CONNECT x.org:443 HTTP/1.1\nHost: x.org\nHost: x.org"),
            Err(EgressDenial::MalformedHead)
        );
    }

    #[test]
    fn connect_with_a_body_is_refused() {
        for length in [
            "Content-Length: 0",
            "Content-Length: 5",
            "Transfer-Encoding: chunked",
        ] {
            assert_eq!(
                of(&format!("CONNECT x.org:443 HTTP/1.1\n{length}")),
                Err(EgressDenial::AmbiguousLength),
                "{length}"
            );
        }
    }

    #[test]
    fn an_absolute_target_is_for_the_server_of_plain_http() {
        assert_eq!(of("GET http://x.org/ HTTP/1.1\nHost: x.org"), Ok(None));
        assert_eq!(of("POST HTTP://x.org HTTP/1.1\nHost: x.org"), Ok(None));
        assert_eq!(of("GET https://x.org/ HTTP/1.1\nHost: x.org"), Ok(None));
    }

    #[test]
    fn other_targets_are_no_request_to_a_proxy() {
        for line in [
            "GET / HTTP/1.1",
            "GET http HTTP/1.1",
            "GET ftp://x.org/ HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "GET x.org:443 HTTP/1.1",
            "connect x.org:443 HTTP/1.1",
        ] {
            assert_eq!(
                of(&format!("{line}\nHost: x.org")),
                Err(EgressDenial::Protocol),
                "{line}"
            );
        }
    }
}
