//! Connections and requests against the rules of a profile.

use super::{
    EgressDenial,
    target::{is_clean, unambiguous_path},
};
use crate::{
    config::{HostPattern, PathPattern, Profile, Rule, Scheme},
    types::{Endpoint, MAX_METHOD_BYTES, MAX_TARGET_BYTES},
};

/// What becomes of a connection that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// TLS that is passed through unread, once its server name was compared.
    Tunnel,
    /// TLS that is ended here, so that every request inside is decided.
    Intercept,
    /// HTTP in the clear, of which every request is decided.
    Plain,
}

/// Decides a connection. Where several rules name the host, those that name it most exactly say what becomes of it,
/// and of these the one that sees most: TLS before plain HTTP, ended here before passed through.
///
/// # Errors
/// [`EgressDenial::HostNotAllowed`].
pub fn connection(profile: &Profile, endpoint: &Endpoint) -> Result<Route, EgressDenial> {
    let rules = || {
        profile
            .rules
            .iter()
            .filter_map(|rule| Some((exactness(rule, endpoint)?, route(rule))))
    };
    let most_exact = rules().map(|(exactness, _)| exactness).max();
    let routes: Vec<Route> = rules()
        .filter(|(exactness, _)| Some(*exactness) == most_exact)
        .map(|(_, route)| route)
        .collect();
    [Route::Intercept, Route::Tunnel, Route::Plain]
        .into_iter()
        .find(|route| routes.contains(route))
        .ok_or(EgressDenial::HostNotAllowed)
}

/// Decides one request that is read here. `method` and `target` (path and query, canonical) are what will be sent. It
/// is allowed where any rule allows it that is no tunnel.
///
/// # Errors
/// The [`EgressDenial`] that comes furthest: about the host, then the scheme, the method, the path.
pub fn request(
    profile: &Profile,
    scheme: Scheme,
    endpoint: &Endpoint,
    method: &str,
    target: &str,
) -> Result<(), EgressDenial> {
    if ["CONNECT", "TRACE"]
        .iter()
        .any(|never| method.eq_ignore_ascii_case(never))
    {
        return Err(EgressDenial::ForbiddenMethod);
    }
    // What goes out is on record whole: nothing hides behind the point where a line of the log is cut.
    if method.len() > MAX_METHOD_BYTES || target.len() > MAX_TARGET_BYTES {
        return Err(EgressDenial::RequestLineTooLong);
    }
    if !is_clean(target) {
        return Err(EgressDenial::PathAmbiguous);
    }
    let mut named = profile
        .rules
        .iter()
        .filter(|rule| !rule.tunnel && exactness(rule, endpoint).is_some())
        .peekable();
    if named.peek().is_none() {
        return Err(EgressDenial::HostNotAllowed);
    }
    let mut of_scheme = named.filter(|rule| rule.scheme == scheme).peekable();
    if of_scheme.peek().is_none() {
        return Err(EgressDenial::SchemeNotAllowed);
    }
    let of_method: Vec<&Rule> = of_scheme
        .filter(|rule| allows_method(rule, method))
        .collect();
    if of_method.is_empty() {
        return Err(EgressDenial::MethodNotAllowed);
    }
    if of_method.iter().any(|rule| rule.paths.is_none()) {
        return Ok(());
    }
    let path = unambiguous_path(target)?;
    let mut patterns = of_method
        .iter()
        .flat_map(|rule| rule.paths.iter().flatten());
    if patterns.any(|pattern| is_path(pattern, path)) {
        Ok(())
    } else {
        Err(EgressDenial::PathNotAllowed)
    }
}

/// Whether the requests to a server are allowed by method or path: then nothing in them may say another one.
#[must_use]
pub fn is_restricted(profile: &Profile, scheme: Scheme, endpoint: &Endpoint) -> bool {
    profile
        .rules
        .iter()
        .filter(|rule| !rule.tunnel && rule.scheme == scheme && exactness(rule, endpoint).is_some())
        .any(|rule| rule.methods.is_some() || rule.paths.is_some())
}

/// How exactly a rule names a server, if it does; more is more exact.
fn exactness(rule: &Rule, endpoint: &Endpoint) -> Option<usize> {
    let named = rule.port == endpoint.port && rule.hosts.covers(&endpoint.host);
    named.then(|| match &rule.hosts {
        HostPattern::Exactly(_) => usize::MAX,
        HostPattern::Below(parent) => parent.as_str().len(),
    })
}

fn route(rule: &Rule) -> Route {
    match (rule.scheme, rule.tunnel) {
        (Scheme::Http, _) => Route::Plain,
        (Scheme::Https, true) => Route::Tunnel,
        (Scheme::Https, false) => Route::Intercept,
    }
}

/// Methods are told apart by case (RFC 9110, 9.1); rules have them in capitals.
fn allows_method(rule: &Rule, method: &str) -> bool {
    rule.methods
        .as_ref()
        .is_none_or(|methods| methods.iter().any(|allowed| allowed == method))
}

fn is_path(pattern: &PathPattern, path: &str) -> bool {
    match pattern {
        PathPattern::Exactly(exact) => exact == path,
        PathPattern::Prefix(start) => path.starts_with(start.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::egress::fixtures::{endpoint, profile, rule};

    #[test]
    fn an_empty_profile_denies_everything_and_plain_http_too() {
        let empty = profile(vec![]);
        for at in ["x.org:443", "x.org:80", "127.0.0.1:80"] {
            let at = endpoint(at);
            assert_eq!(connection(&empty, &at), Err(EgressDenial::HostNotAllowed));
            for scheme in [Scheme::Http, Scheme::Https] {
                assert_eq!(
                    request(&empty, scheme, &at, "GET", "/"),
                    Err(EgressDenial::HostNotAllowed)
                );
            }
        }
    }

    #[test]
    fn a_rule_is_about_its_own_host_and_port_alone() {
        let profile = profile(vec![rule("x.org:443")]);
        assert_eq!(
            connection(&profile, &endpoint("x.org:443")),
            Ok(Route::Intercept)
        );
        for other in [
            "x.org:80",
            "x.org:8443",
            "y.org:443",
            "a.x.org:443",
            "notx.org:443",
            "x.org.evil.org:443",
            "org:443",
        ] {
            assert_eq!(
                connection(&profile, &endpoint(other)),
                Err(EgressDenial::HostNotAllowed),
                "{other}"
            );
        }
    }

    #[test]
    fn a_wildcard_covers_what_is_below_it_and_neither_the_name_itself_nor_a_neighbour_nor_an_address()
     {
        let profile = profile(vec![rule("*.x.org:443")]);
        for below in ["a.x.org:443", "a.b.x.org:443"] {
            assert_eq!(
                connection(&profile, &endpoint(below)),
                Ok(Route::Intercept),
                "{below}"
            );
        }
        for other in [
            "x.org:443",
            "notx.org:443",
            "a.x.org:80",
            "a.x.org.evil.org:443",
            "1.2.3.4:443",
            "[::1]:443",
        ] {
            assert_eq!(
                connection(&profile, &endpoint(other)),
                Err(EgressDenial::HostNotAllowed),
                "{other}"
            );
        }
    }

    #[test]
    fn an_address_is_allowed_only_where_a_rule_names_it() {
        let profile = profile(vec![rule("10.0.0.1:443"), rule("[fd12::1]:443")]);
        for at in [
            "10.0.0.1:443",
            "0xa.1:443",
            "[::ffff:10.0.0.1]:443",
            "[fd12:0::1]:443",
        ] {
            assert_eq!(
                connection(&profile, &endpoint(at)),
                Ok(Route::Intercept),
                "{at}"
            );
        }
        assert!(connection(&profile, &endpoint("10.0.0.2:443")).is_err());
    }

    #[test]
    fn tls_is_intercepted_unless_the_rule_says_tunnel() {
        let tunnel = Rule {
            tunnel: true,
            ..rule("x.org:443")
        };
        let profile_of = |rules| connection(&profile(rules), &endpoint("x.org:443"));
        assert_eq!(profile_of(vec![rule("x.org:443")]), Ok(Route::Intercept));
        assert_eq!(profile_of(vec![tunnel.clone()]), Ok(Route::Tunnel));
        assert_eq!(
            profile_of(vec![tunnel, rule("x.org:443")]),
            Ok(Route::Intercept)
        );
        assert_eq!(profile_of(vec![rule("http://x.org:443")]), Ok(Route::Plain));
        assert_eq!(
            profile_of(vec![rule("http://x.org:443"), rule("x.org:443")]),
            Ok(Route::Intercept)
        );
    }

    #[test]
    fn the_rule_that_names_a_host_most_exactly_says_what_becomes_of_it() {
        let tunnel = |text| Rule {
            tunnel: true,
            ..rule(text)
        };
        let rules = profile(vec![
            rule("*.x.org:443"),
            tunnel("pinned.x.org:443"),
            tunnel("*.far.x.org:443"),
            rule("seen.far.x.org:443"),
        ]);
        for (at, route) in [
            ("any.x.org:443", Route::Intercept),
            ("pinned.x.org:443", Route::Tunnel),
            ("a.far.x.org:443", Route::Tunnel),
            ("seen.far.x.org:443", Route::Intercept),
        ] {
            assert_eq!(connection(&rules, &endpoint(at)), Ok(route), "{at}");
        }
    }

    #[test]
    fn a_tunnel_allows_no_request_that_is_read_here() {
        let profile = profile(vec![Rule {
            tunnel: true,
            ..rule("x.org:443")
        }]);
        assert_eq!(
            request(&profile, Scheme::Https, &endpoint("x.org:443"), "GET", "/"),
            Err(EgressDenial::HostNotAllowed)
        );
    }

    #[test]
    fn plain_http_only_where_the_rule_says_so_and_never_https_there() {
        let profile = profile(vec![rule("x.org:443"), rule("http://x.org:80")]);
        let ask = |scheme, at| request(&profile, scheme, &endpoint(at), "GET", "/");
        assert_eq!(ask(Scheme::Https, "x.org:443"), Ok(()));
        assert_eq!(ask(Scheme::Http, "x.org:80"), Ok(()));
        let denied = Err(EgressDenial::SchemeNotAllowed);
        assert_eq!(ask(Scheme::Http, "x.org:443"), denied);
        assert_eq!(ask(Scheme::Https, "x.org:80"), denied);
    }

    #[test]
    fn methods_are_those_of_the_rule_or_all_but_connect_and_trace() {
        let some = Rule {
            methods: Some(vec!["GET".to_owned(), "HEAD".to_owned()]),
            ..rule("some.org:443")
        };
        let profile = profile(vec![some, rule("all.org:443")]);
        let ask = |at, method| request(&profile, Scheme::Https, &endpoint(at), method, "/");
        for method in ["GET", "HEAD"] {
            assert_eq!(ask("some.org:443", method), Ok(()));
        }
        for method in ["POST", "get", "GETX", ""] {
            let denied = Err(EgressDenial::MethodNotAllowed);
            assert_eq!(ask("some.org:443", method), denied, "{method}");
        }
        for method in ["GET", "POST", "PROPFIND"] {
            assert_eq!(ask("all.org:443", method), Ok(()));
        }
        for method in ["CONNECT", "TRACE", "trace", "Connect"] {
            let denied = Err(EgressDenial::ForbiddenMethod);
            assert_eq!(ask("all.org:443", method), denied, "{method}");
        }
    }

    #[test]
    fn a_request_line_that_the_record_would_cut_is_denied() {
        let profile = profile(vec![rule("x.org:443")]);
        let ask = |method: &str, target: &str| {
            let at = endpoint("x.org:443");
            request(&profile, Scheme::Https, &at, method, target)
        };
        let target = format!("/{}", "a".repeat(MAX_TARGET_BYTES - 1));
        let method = "M".repeat(MAX_METHOD_BYTES);
        assert_eq!(ask(&method, &target), Ok(()));
        let denied = Err(EgressDenial::RequestLineTooLong);
        assert_eq!(ask("GET", &format!("{target}a")), denied);
        assert_eq!(ask(&format!("{method}M"), "/"), denied);
    }

    #[test]
    fn paths_are_exact_or_begin_as_the_rule_says() {
        let mut only = rule("x.org:443");
        only.paths = Some(vec![
            PathPattern::Exactly("/user".to_owned()),
            PathPattern::Prefix("/repos/".to_owned()),
        ]);
        let profile = profile(vec![only]);
        let ask = |target| {
            request(
                &profile,
                Scheme::Https,
                &endpoint("x.org:443"),
                "GET",
                target,
            )
        };
        for target in ["/user", "/user?a=/../b", "/repos/", "/repos/a/b?c"] {
            assert_eq!(ask(target), Ok(()), "{target}");
        }
        for target in ["/", "/users", "/user/", "/repos", "/reposx/", "/USER"] {
            assert_eq!(ask(target), Err(EgressDenial::PathNotAllowed), "{target}");
        }
        for target in [
            "/repos/../user",
            "/repos/%2e%2e/x",
            "/repos/..%2fx",
            "/repos//x",
            "/repos\\..\\x",
            "*",
            "/repos/%00",
            "/%72epos/",
            "/repos/a b",
            "/repos/#x",
        ] {
            assert_eq!(ask(target), Err(EgressDenial::PathAmbiguous), "{target}");
        }
    }

    #[test]
    fn without_paths_only_what_could_split_a_request_is_denied() {
        let profile = profile(vec![rule("x.org:443")]);
        let ask = |target| {
            request(
                &profile,
                Scheme::Https,
                &endpoint("x.org:443"),
                "GET",
                target,
            )
        };
        for target in ["/a/../b", "/a%2Fb", "/@scope%2fname", "*", "//x"] {
            assert_eq!(ask(target), Ok(()), "{target}");
        }
        for target in ["/a b", "/a\r\nHost: y", "/\0"] {
            assert_eq!(ask(target), Err(EgressDenial::PathAmbiguous), "{target:?}");
        }
    }

    #[test]
    fn a_request_is_allowed_where_any_rule_of_the_host_allows_it() {
        let mut read = rule("x.org:443");
        read.methods = Some(vec!["GET".to_owned()]);
        let mut write = rule("*.org:443");
        write.methods = Some(vec!["POST".to_owned()]);
        write.paths = Some(vec![PathPattern::Exactly("/in".to_owned())]);
        let profile = profile(vec![read, write]);
        let ask = |method, target| {
            request(
                &profile,
                Scheme::Https,
                &endpoint("x.org:443"),
                method,
                target,
            )
        };
        assert_eq!(ask("GET", "/any"), Ok(()));
        assert_eq!(ask("POST", "/in"), Ok(()));
        assert_eq!(ask("POST", "/any"), Err(EgressDenial::PathNotAllowed));
        assert_eq!(ask("PUT", "/in"), Err(EgressDenial::MethodNotAllowed));
    }
}
