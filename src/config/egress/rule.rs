//! One entry of `allow`: which host and port, spoken to how, and what of it.

use super::{
    EgressProblem, HostPattern, MAX_METHODS, MAX_PATH_BYTES, MAX_PATHS, METHODS, PathPattern, Rule,
    Scheme,
    raw::{RawRule, RawRuleTable},
};
use crate::{
    config::Problem,
    types::{DnsName, Endpoint, Host},
};

impl Rule {
    /// Checks an entry; `key` is where it stands.
    pub(super) fn checked(raw: RawRule, key: &str) -> Result<Self, Problem> {
        match raw {
            RawRule::Text(text) => target(&text, None).map_err(|problem| problem.at(key)),
            RawRule::Table(table) => Self::narrowed(table, key),
        }
    }

    fn narrowed(raw: RawRuleTable, key: &str) -> Result<Self, Problem> {
        let rule = target(&raw.host, raw.port).map_err(|problem| problem.at(key))?;
        let narrowed = raw.methods.is_some() || raw.paths.is_some();
        if raw.tunnel && narrowed {
            return Err(EgressProblem::TunnelNarrowed.at(key));
        }
        if raw.tunnel && rule.scheme == Scheme::Http {
            return Err(EgressProblem::TunnelPlain.at(key));
        }
        let (methods_key, paths_key) = (format!("{key}.methods"), format!("{key}.paths"));
        Ok(Self {
            methods: raw
                .methods
                .map(|found| each(found, MAX_METHODS, method).map_err(|it| it.at(methods_key)))
                .transpose()?,
            paths: raw
                .paths
                .map(|found| each(found, MAX_PATHS, path).map_err(|it| it.at(paths_key)))
                .transpose()?,
            tunnel: raw.tunnel,
            ..rule
        })
    }

    /// Whether both name the same and say different ways of speaking to it. Of a wildcard and a name below it the more
    /// exact one says how, so that there can be exceptions.
    pub(super) fn clashes(&self, other: &Self) -> bool {
        (&self.hosts, self.port) == (&other.hosts, other.port)
            && (self.scheme, self.tunnel) != (other.scheme, other.tunnel)
    }

    /// The rule as it is written.
    pub(super) fn raw(&self) -> RawRule {
        let scheme = match self.scheme {
            Scheme::Https => "",
            Scheme::Http => "http://",
        };
        let host = format!("{scheme}{}:{}", self.hosts, self.port);
        if self.methods.is_none() && self.paths.is_none() && !self.tunnel {
            return RawRule::Text(host);
        }
        RawRule::Table(RawRuleTable {
            host,
            port: None,
            methods: self.methods.clone(),
            paths: self
                .paths
                .as_ref()
                .map(|paths| paths.iter().map(PathPattern::to_string).collect()),
            tunnel: self.tunnel,
        })
    }
}

/// The whole host, port and scheme that a text names; `port` is what the key of that name says.
fn target(text: &str, port: Option<u16>) -> Result<Rule, EgressProblem> {
    let found = || text.to_owned();
    let (scheme, authority) = match text.split_once("://") {
        None => (Scheme::Https, text),
        Some(("https", rest)) => (Scheme::Https, rest),
        Some(("http", rest)) => (Scheme::Http, rest),
        Some(_) => return Err(EgressProblem::RuleScheme { found: found() }),
    };
    if authority.contains(['/', '?', '#']) {
        return Err(EgressProblem::RuleTail { found: found() });
    }
    if matches!(authority, "*" | "*.") || authority.starts_with("*:") {
        return Err(EgressProblem::WildcardAll { found: found() });
    }
    let below = authority.strip_prefix("*.");
    let name = below.unwrap_or(authority);
    if name.contains('*') {
        return Err(EgressProblem::WildcardPlace { found: found() });
    }
    if port.is_some() && Endpoint::parse(name, None).is_ok() {
        return Err(EgressProblem::PortTwice { found: found() });
    }
    let default = port.unwrap_or(scheme.default_port());
    let endpoint = Endpoint::parse(name, Some(default)).map_err(|error| EgressProblem::Host {
        found: found(),
        error,
    })?;
    let hosts = match (below, endpoint.host) {
        (None, host) => HostPattern::Exactly(host),
        (Some(_), Host::Ip(_)) => return Err(EgressProblem::WildcardAddress { found: found() }),
        (Some(_), Host::Name(name)) if is_above_registrations(&name) => {
            return Err(EgressProblem::WildcardSuffix { found: found() });
        }
        (Some(_), Host::Name(name)) => HostPattern::Below(name),
    };
    Ok(Rule {
        scheme,
        hosts,
        port: endpoint.port,
        methods: None,
        paths: None,
        tunnel: false,
    })
}

/// Whether anybody can have a name right below this one: it is a public suffix, or each name below it is. A single label
/// that the list does not know counts as one.
fn is_above_registrations(name: &DnsName) -> bool {
    let is_suffix = |name: &str| psl::suffix_str(name).is_none_or(|suffix| suffix == name);
    is_suffix(name.as_str()) || is_suffix(&format!("a.{name}"))
}

/// Checks each entry of a list that narrows a rule down.
fn each<T>(
    found: Vec<String>,
    most: usize,
    check: impl Fn(String) -> Result<T, EgressProblem>,
) -> Result<Vec<T>, EgressProblem> {
    match found.len() {
        0 => Err(EgressProblem::EmptyList),
        count if count > most => Err(EgressProblem::TooMany { found: count, most }),
        _ => found.into_iter().map(check).collect(),
    }
}

fn method(found: String) -> Result<String, EgressProblem> {
    if METHODS.contains(&found.as_str()) {
        Ok(found)
    } else {
        Err(EgressProblem::Method { found })
    }
}

/// A path in the one form that requests are compared in: what has another form would never match, and what can be read
/// in two ways would match what it should not.
fn path(found: String) -> Result<PathPattern, EgressProblem> {
    let wrong = |why| EgressProblem::Path {
        found: found.clone(),
        why,
    };
    if found.len() > MAX_PATH_BYTES {
        return Err(wrong("is longer than 1024 bytes"));
    }
    if !found.starts_with('/') {
        return Err(wrong("does not begin with `/`"));
    }
    let (plain, prefix) = match found.strip_suffix('*') {
        Some(plain) => (plain, true),
        None => (found.as_str(), false),
    };
    if plain.contains('*') {
        return Err(wrong("has a `*` elsewhere than at its end"));
    }
    if plain.contains(['?', '#']) {
        return Err(wrong(
            "has a query or a fragment, and only paths are compared",
        ));
    }
    if plain.contains('\\') || !plain.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(wrong(
            "has a character that no path has (escape it as `%` and two digits)",
        ));
    }
    if !plain.split('%').skip(1).all(is_plain_escape) {
        return Err(wrong(
            "has an escape that can be read in more than one way: `%` and two digits in capitals, for none of A-Z, a-z, 0-9, `-`, `.`, `_`, `~`, `/`, `\\`, `%` and control characters",
        ));
    }
    // The last segment of a prefix goes on in the request.
    let mut segments: Vec<&str> = plain.split('/').skip(1).collect();
    let last = segments.pop();
    // Some servers cut a segment at `;`.
    let dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    if segments
        .iter()
        .any(|segment| segment.is_empty() || dots(segment))
        || last.is_some_and(dots)
    {
        return Err(wrong("has a segment that is empty, `.` or `..`"));
    }
    Ok(if prefix {
        PathPattern::Prefix(plain.to_owned())
    } else {
        PathPattern::Exactly(found)
    })
}

/// Whether what stands behind a `%` begins with two digits that mean one thing to everybody.
fn is_plain_escape(after: &str) -> bool {
    let Some(digits) = after.get(..2) else {
        return false;
    };
    let capital = |b: u8| b.is_ascii_digit() || (b'A'..=b'F').contains(&b);
    let Some(byte) = u8::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.bytes().all(capital))
    else {
        return false;
    };
    let unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    !unreserved && !byte.is_ascii_control() && !matches!(byte, b'/' | b'\\' | b'%')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Result<RawRule, EgressProblem> {
        target(text, None).map(|rule| rule.raw())
    }

    #[test]
    fn a_rule_has_its_scheme_and_port() {
        for (text, expected) in [
            ("Example.org", "example.org:443"),
            ("example.org.:8443", "example.org:8443"),
            ("https://example.org", "example.org:443"),
            ("http://example.org", "http://example.org:80"),
            ("http://example.org:8080", "http://example.org:8080"),
            ("*.example.org", "*.example.org:443"),
            ("http://*.example.org:81", "http://*.example.org:81"),
            ("0x7f.1", "127.0.0.1:443"),
            ("[::1]:8443", "[::1]:8443"),
        ] {
            assert_eq!(
                shown(text),
                Ok(RawRule::Text(expected.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_wildcard_never_covers_names_that_anybody_can_have() {
        for name in ["com", "co.uk", "github.io", "test", "kawasaki.jp", "ck"] {
            let found = format!("*.{name}");
            let expected = EgressProblem::WildcardSuffix {
                found: found.clone(),
            };
            assert_eq!(shown(&found), Err(expected), "{name}");
        }
        for name in ["example.com", "example.co.uk", "me.github.io", "lab.test"] {
            assert!(shown(&format!("*.{name}")).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_wildcard_covers_what_is_below_it_and_nothing_else() {
        let rule = target("*.x.example", None).unwrap();
        for (host, covered) in [
            ("a.x.example", true),
            ("a.b.x.example", true),
            ("A.X.Example.", true),
            ("x.example", false),
            ("notx.example", false),
            ("x.example.org", false),
            ("a.x.example.org", false),
            ("10.0.0.1", false),
        ] {
            let host = Host::parse(host).unwrap();
            assert_eq!(rule.hosts.covers(&host), covered, "{host}");
        }
    }

    #[test]
    fn rules_clash_where_they_say_two_ways_of_speaking_to_the_same() {
        let rule = |text: &str, tunnel| Rule {
            tunnel,
            ..target(text, None).unwrap()
        };
        let plain = rule("a.x.example", false);
        for (other, tunnel, clash) in [
            ("a.x.example", false, false),
            ("a.x.example", true, true),
            ("A.x.example.", true, true),
            ("http://a.x.example:443", false, true),
            ("http://a.x.example", false, false),
            ("a.x.example:8443", true, false),
            ("b.x.example", true, false),
            ("*.x.example", true, false),
        ] {
            let other = rule(other, tunnel);
            assert_eq!(plain.clashes(&other), clash, "{other:?}");
            assert_eq!(other.clashes(&plain), clash, "{other:?}");
        }
        assert!(rule("*.x.example", true).clashes(&rule("*.x.example", false)));
    }

    #[test]
    fn a_path_has_one_form() {
        for (text, expected) in [
            ("/", Some(PathPattern::Exactly("/".to_owned()))),
            ("/*", Some(PathPattern::Prefix("/".to_owned()))),
            ("/repos/*", Some(PathPattern::Prefix("/repos/".to_owned()))),
            ("/repos*", Some(PathPattern::Prefix("/repos".to_owned()))),
            (
                "/a%20b/c",
                Some(PathPattern::Exactly("/a%20b/c".to_owned())),
            ),
            ("/a/", Some(PathPattern::Exactly("/a/".to_owned()))),
            ("/a/..b", Some(PathPattern::Exactly("/a/..b".to_owned()))),
            ("", None),
            ("*", None),
            ("a", None),
            ("/a*b", None),
            ("/**", None),
            ("/a?b", None),
            ("/a#b", None),
            ("/a\\b", None),
            ("/a b", None),
            ("/a\0", None),
            ("/\u{fc}", None),
            ("//a", None),
            ("/a//b", None),
            ("/./a", None),
            ("/a/..", None),
            ("/a/../b", None),
            ("/a/..*", None),
            ("/a/..;x/b", None),
            ("/a/..;*", None),
            ("/a/x;..", Some(PathPattern::Exactly("/a/x;..".to_owned()))),
            ("/a%", None),
            ("/a%2", None),
            ("/a%2fb", None),
            ("/a%2Fb", None),
            ("/a%5Cb", None),
            ("/a%2E", None),
            ("/a%41", None),
            ("/a%00", None),
            ("/a%25b", None),
            ("/a%e4", None),
            ("/a%+1", None),
        ] {
            assert_eq!(path(text.to_owned()).ok(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_rule_shows_as_what_is_read_as_the_same(
            text in "(https?://)?(\\*\\.)?([a-zA-Z0-9-]{1,5}\\.){0,3}[a-zA-Z0-9]{1,5}\\.?(:[0-9]{1,5})?|[ -~]{0,12}",
        ) {
            if let Ok(rule) = target(&text, None) {
                let RawRule::Text(shown) = rule.raw() else {
                    panic!("{rule:?}");
                };
                prop_assert_eq!(target(&shown, None), Ok(rule));
            }
        }

        #[test]
        fn a_path_that_is_taken_is_plain(text in "/([a-c/.%*?#\\\\]|%[0-9a-fA-F]{2}){0,8}") {
            if let Ok(pattern) = path(text.clone()) {
                let shown = pattern.to_string();
                prop_assert_eq!(&shown, &text);
                let plain = shown.to_ascii_lowercase();
                for part in ["..", "//", "%2f", "%5c", "%2e", "%00", "\\", "?", "#"] {
                    let at = plain.find(part);
                    // Two dots are plain within a longer segment.
                    let within = part == ".." && plain.split('/').all(|it| it != "..");
                    prop_assert!(at.is_none() || within, "{}", shown);
                }
            }
        }
    }
}
