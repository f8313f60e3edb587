//! What a server saw, for tests to look into.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use hyper::{Request, Version, body::Incoming};

/// The most requests that are kept: a flood must not fill the memory of the test that makes it.
pub const MAX_SEEN: usize = 4096;

/// One request, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// `:authority`, or what stood before the path in the target, or else the header `Host`.
    pub authority: Option<String>,
    /// Every header, in order, with its name in lower case; bytes beyond ASCII escaped.
    pub headers: Vec<(String, String)>,
    /// `HTTP/1.1`, `HTTP/2.0` and so on.
    pub version: Version,
    /// The server name of its connection's TLS; none in the clear.
    pub server_name: Option<String>,
    /// Whether it came under TLS.
    pub secure: bool,
}

impl Seen {
    /// The request as it is before its body is read.
    pub(crate) fn of(request: &Request<Incoming>, server_name: Option<&str>, secure: bool) -> Self {
        let headers: Vec<(String, String)> = request
            .headers()
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string(),
                    value.as_bytes().escape_ascii().to_string(),
                )
            })
            .collect();
        let uri = request.uri();
        let host = || {
            headers
                .iter()
                .find(|(name, _)| name == "host")
                .map(|(_, value)| value.clone())
        };
        Self {
            method: request.method().to_string(),
            target: uri
                .path_and_query()
                .map_or_else(|| uri.to_string(), ToString::to_string),
            authority: uri.authority().map(ToString::to_string).or_else(host),
            version: request.version(),
            server_name: server_name.map(ToOwned::to_owned),
            secure,
            headers,
        }
    }

    /// The values of a header, by its name in lower case.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Everything that a server saw.
#[derive(Debug, Default)]
pub(crate) struct Log {
    requests: Mutex<Vec<Seen>>,
    connections: AtomicU64,
}

impl Log {
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn requested(&self, seen: Seen) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() < MAX_SEEN {
            requests.push(seen);
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
