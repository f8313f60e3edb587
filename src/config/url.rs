//! URLs of servers that the operator or an index names, in one form only.
//!
//! A URL is parsed once, into scheme, host, port and target, and put together from these again; what has more than one
//! meaning is no URL. Nothing in here resolves or fetches anything.

use std::{fmt, str::FromStr as _};

use super::Scheme;
use crate::types::{Endpoint, HostError};

/// The longest URL, in bytes. Stops an index from filling the memory with one link.
const MAX_URL_BYTES: usize = 4096;

/// Why a text is no URL of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Longer than any honest one.
    #[error("is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// Neither `https://` nor `http://`.
    #[error("begins with neither https:// nor http://")]
    Scheme,
    /// A user's name or password, which would end up in messages and in the record.
    #[error("has a user or password in it: credentials for registries are not supported")]
    Userinfo,
    /// No host, or no port.
    #[error("has a host that {0}")]
    Host(HostError),
    /// A path with more than one meaning.
    #[error(
        "has a path with `..`, an encoded dot or slash, white space, or a character that no URL has"
    )]
    Path,
}

/// `https://host:port/path?query`, or `http://`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    /// How the server is spoken to.
    pub scheme: Scheme,
    /// Which server.
    pub endpoint: Endpoint,
    /// Path and query; begins with `/`.
    target: String,
}

impl HttpUrl {
    /// Parses an absolute URL. What stands behind `#` is dropped.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong);
        }
        let (scheme, rest) = scheme(text).ok_or(UrlError::Scheme)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::Userinfo);
        }
        let endpoint =
            Endpoint::parse(authority, Some(scheme.default_port())).map_err(UrlError::Host)?;
        let target = without_fragment(target);
        let target = if target.starts_with('/') {
            target.to_owned()
        } else {
            format!("/{target}")
        };
        Self {
            scheme,
            endpoint,
            target: String::new(),
        }
        .at(target)
    }

    /// What `reference` means on the page that has this URL: an absolute URL, `/a/b`, or `../a/b`.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        if reference.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong);
        }
        if scheme(reference).is_some() {
            return Self::parse(reference);
        }
        let reference = without_fragment(reference);
        let path = reference.split('?').next().unwrap_or_default();
        // `//host/path` is another server, and `mailto:` and its like are none.
        if path.starts_with("//") || path.split('/').next().is_some_and(|s| s.contains(':')) {
            return Err(UrlError::Scheme);
        }
        if reference.starts_with('/') {
            return self.at(reference.to_owned());
        }
        let mut folder: Vec<&str> = self.path().split('/').collect();
        folder.pop();
        let mut rest = reference;
        loop {
            if let Some(after) = rest.strip_prefix("../") {
                // The root has no parent.
                if folder.len() > 1 {
                    folder.pop();
                }
                rest = after;
            } else if let Some(after) = rest.strip_prefix("./") {
                rest = after;
            } else {
                break;
            }
        }
        self.at(format!("{}/{rest}", folder.join("/")))
    }

    /// The URL of `below` in the folder that this URL names.
    ///
    /// # Errors
    /// [`UrlError::Path`].
    pub fn below(&self, below: &str) -> Result<Self, UrlError> {
        self.at(format!("{}/{below}", self.path().trim_end_matches('/')))
    }

    /// Path and query, as they are sent.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The path alone.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    fn at(&self, target: String) -> Result<Self, UrlError> {
        let url = Self {
            target,
            ..self.clone()
        };
        let plain = |b: u8| b.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&b);
        let clear = |segment: &str| {
            let segment = segment.to_ascii_lowercase();
            let plain = segment.replace("%2e", ".");
            plain != "." && plain != ".." && !segment.contains("%2f") && !segment.contains("%5c")
        };
        let right = url.target.len() <= MAX_URL_BYTES
            && url.target.starts_with('/')
            && !url.target.starts_with("//")
            && url.target.bytes().all(plain)
            && url.path().split('/').all(clear)
            && hyper::http::uri::PathAndQuery::from_str(&url.target).is_ok();
        if right { Ok(url) } else { Err(UrlError::Path) }
    }
}

fn scheme(text: &str) -> Option<(Scheme, &str)> {
    let strip = |prefix: &str| {
        let (start, rest) = text.split_at_checked(prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then_some(rest)
    };
    if let Some(rest) = strip("https://") {
        return Some((Scheme::Https, rest));
    }
    strip("http://").map(|rest| (Scheme::Http, rest))
}

fn without_fragment(text: &str) -> &str {
    text.split('#').next().unwrap_or_default()
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, Endpoint { host, port }) = (self.scheme, &self.endpoint);
        f.write_str(match scheme {
            Scheme::Https => "https://",
            Scheme::Http => "http://",
        })?;
        if *port == scheme.default_port() {
            write!(f, "{host}{}", self.target)
        } else {
            write!(f, "{host}:{port}{}", self.target)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn a_url_has_one_form() {
        for (text, expected) in [
            ("https://a.test", "https://a.test/"),
            ("HTTPS://A.Test:443/x/", "https://a.test/x/"),
            ("http://a.test:80/x?y=1", "http://a.test/x?y=1"),
            ("https://a.test.:8443/x#frag", "https://a.test:8443/x"),
            ("https://[::ffff:192.0.2.1]/x", "https://192.0.2.1/x"),
            ("https://a.test?x", "https://a.test/?x"),
        ] {
            assert_eq!(url(text).to_string(), expected, "{text}");
        }
        for (bad, error) in [
            ("", UrlError::Scheme),
            ("a.test/x", UrlError::Scheme),
            ("ftp://a.test/", UrlError::Scheme),
            ("file:///etc/passwd", UrlError::Scheme),
            ("https://user@a.test/", UrlError::Userinfo),
            ("https://user:password@a.test/", UrlError::Userinfo),
            ("https:///x", UrlError::Host(HostError::Empty)),
            ("https://a b/", UrlError::Host(HostError::Character)),
            ("https://a.test:0/", UrlError::Host(HostError::Port)),
            ("https://a.test/a/../b", UrlError::Path),
            ("https://a.test/a/%2E./b", UrlError::Path),
            ("https://a.test/a%2fb", UrlError::Path),
            ("https://a.test/a\\b", UrlError::Path),
            ("https://a.test/a b", UrlError::Path),
            ("https://a.test/a\r\nHost: b", UrlError::Path),
            ("https://a.test//b", UrlError::Path),
        ] {
            assert_eq!(HttpUrl::parse(bad), Err(error), "{bad}");
        }
        let long = format!("https://a.test/{}", "x".repeat(MAX_URL_BYTES));
        assert_eq!(HttpUrl::parse(&long), Err(UrlError::TooLong));
    }

    #[test]
    fn links_are_read_as_on_their_page() {
        let page = url("https://a.test/simple/six/");
        for (link, expected) in [
            ("six-1.whl", "https://a.test/simple/six/six-1.whl"),
            ("./six-1.whl", "https://a.test/simple/six/six-1.whl"),
            ("../../f/six-1.whl#sha256=0", "https://a.test/f/six-1.whl"),
            ("../../../../f", "https://a.test/f"),
            ("/f/six-1.whl?x=1", "https://a.test/f/six-1.whl?x=1"),
            ("https://b.test/six-1.whl", "https://b.test/six-1.whl"),
            ("http://b.test/six-1.whl", "http://b.test/six-1.whl"),
        ] {
            assert_eq!(page.join(link).unwrap().to_string(), expected, "{link}");
        }
        for bad in [
            "//b.test/x",
            "javascript:alert(1)",
            "ftp://b.test/x",
            "a/../../x",
            "a/..",
            "..",
            "https://u:p@b.test/x",
        ] {
            assert!(page.join(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_lies_below_keeps_the_folder() {
        for base in ["https://a.test/simple", "https://a.test/simple/"] {
            assert_eq!(
                url(base).below("six/").unwrap().to_string(),
                "https://a.test/simple/six/"
            );
        }
        assert!(url("https://a.test/simple").below("../x").is_err());
    }

    proptest! {
        #[test]
        fn whatever_parses_is_read_back_as_the_same(text in r"https?://[a-z0-9.:@\[\]-]{0,12}[a-z0-9/.%?#\\ -]{0,16}") {
            if let Ok(url) = HttpUrl::parse(&text) {
                prop_assert_eq!(HttpUrl::parse(&url.to_string()), Ok(url));
            }
        }

        #[test]
        fn a_relative_link_never_leaves_its_server(link in r"[a-z0-9/.%?#:\\ @-]{0,24}") {
            let page = url("https://a.test/simple/six/");
            if let Ok(joined) = page.join(&link) {
                prop_assert_eq!(joined.endpoint, page.endpoint);
            }
        }
    }
}
