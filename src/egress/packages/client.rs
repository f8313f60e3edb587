//! Requests to registries: made from scratch, decided, recorded, and sent like those of any program.
//!
//! Each server gets a profile of its own that allows GET there and nothing else, so that names, addresses and
//! certificates are checked by the very code that checks them for programs. No redirect is followed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{ACCEPT, CONTENT_ENCODING, USER_AGENT},
};
use tokio::time::timeout;

use super::registry::Registry;
use crate::{
    config::{Budget, CallerKind, HostPattern, HttpUrl, Profile, Rule, Scheme, Uninspectable},
    egress::{
        Relay, Report, Vault, Witness,
        dial::{DialError, UpstreamFailure},
        ledger::{Refused, RequestLine},
        relay::Shared,
        upstream::{self, RequestBody},
    },
    policy::EgressDenial,
    types::{Endpoint, MIB, ProfileName},
};

/// How registries know who asks; some refuse whoever says nothing.
const AGENT: &str = concat!("belljar/", env!("CARGO_PKG_VERSION"));
/// The most requests of one installation, denied ones included. A tree of a thousand packages takes two of each.
pub(super) const MAX_REQUESTS: u64 = 2000;
/// Connections to one server at a time.
const MAX_CONNECTIONS: u32 = 32;
/// What is sent is heads of requests.
const MAX_SENT_BYTES: u64 = 64 * MIB;
/// What one installation may fetch from one server: far more than a workspace holds.
const MAX_RECEIVED_BYTES: u64 = 16 * 1024 * MIB;
/// How long one connection may last, in seconds: an installation ends long before.
const MAX_SECONDS: u64 = 24 * 3600;
/// How long a server may take for the next piece of a body. Stops one that begins a file and never ends it.
const PIECE_PATIENCE: Duration = Duration::from_mins(1);

/// Why there is no answer from a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// Policy; recorded already.
    #[error(transparent)]
    Denied(#[from] EgressDenial),
    /// The way there.
    #[error(transparent)]
    Upstream(#[from] UpstreamFailure),
    /// It has no such thing.
    #[error("the registry has no such package or file")]
    NotFound,
    /// It answers with an error, or from somewhere else.
    #[error("the registry answered with status {0}")]
    Status(u16),
    /// It answers with something else.
    #[error(
        "the registry's answer is not what it should be: the index must speak the JSON form of the simple repository API, or that of npm"
    )]
    Malformed,
    /// It answers with more than is taken.
    #[error("the registry's answer is larger than is taken")]
    TooLarge,
    /// The file is another one.
    #[error("the file does not have the digest that the index promised: it is not installed")]
    Digest,
    /// The server's disk.
    #[error("the cache of packages cannot be written: is the disk of the state directory full?")]
    Cache,
}

impl Failure {
    /// The constant name of the reason.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Denied(denial) => denial.reason(),
            Self::Upstream(failure) => failure.reason(),
            Self::NotFound => "package_not_found",
            Self::Status(_) => "registry_status",
            Self::Malformed => "registry_malformed",
            Self::TooLarge => "package_too_large",
            Self::Digest => "package_digest",
            Self::Cache => "package_cache",
        }
    }

    /// Whether what an index said before may stand in for what it does not say now.
    pub(super) fn is_outage(self) -> bool {
        match self {
            Self::Upstream(_) => true,
            Self::Status(status) => status >= 500,
            Self::Denied(_)
            | Self::NotFound
            | Self::Malformed
            | Self::TooLarge
            | Self::Digest
            | Self::Cache => false,
        }
    }
}

impl From<DialError> for Failure {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Denied(denial) => Self::Denied(denial),
            DialError::Failed(failure) => Self::Upstream(failure),
        }
    }
}

/// The servers that one installation speaks to.
#[derive(Debug)]
pub(super) struct Client {
    registry: Registry,
    witness: Arc<dyn Witness>,
    relays: Mutex<HashMap<(Scheme, Endpoint), Relay>>,
}

/// A request that was decided and recorded, and may be sent.
#[derive(Debug)]
pub(super) struct Allowed<'a> {
    relay: Arc<Shared>,
    url: &'a HttpUrl,
}

impl Client {
    pub(super) fn new(registry: Registry, witness: Arc<dyn Witness>) -> Self {
        Self {
            registry,
            witness,
            relays: Mutex::default(),
        }
    }

    /// Decides and records a request, wherever its answer will come from.
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn allow<'a>(&self, url: &'a HttpUrl) -> Result<Allowed<'a>, EgressDenial> {
        let relay = self.relay(url);
        let line = RequestLine {
            scheme: url.scheme,
            endpoint: &url.endpoint,
            method: Method::GET.as_str(),
            target: url.target(),
        };
        relay.ledger.request(&line, Vec::new())?;
        Ok(Allowed { relay, url })
    }

    /// Records that something was asked for that is not there to be asked for.
    pub(super) fn refuse(&self, asked: &str, denial: EgressDenial) -> EgressDenial {
        let relay = self.relay(&self.registry.url);
        let asked = Refused::Unparsed(asked.as_bytes());
        relay.ledger.denied(asked, denial)
    }

    /// Cuts every connection.
    pub(super) fn close(&self) {
        for relay in self.relays().values() {
            relay.close();
        }
    }

    /// What was reached and denied so far.
    pub(super) fn report(&self) -> Report {
        self.relays()
            .values()
            .map(Relay::report)
            .fold(Report::default(), Report::and)
    }

    fn relay(&self, url: &HttpUrl) -> Arc<Shared> {
        let server = (url.scheme, url.endpoint.clone());
        let mut relays = self.relays();
        let relay = relays.entry(server).or_insert_with(|| {
            let profile = Arc::new(self.profile(url));
            Relay::new(profile, Vault::default(), Arc::clone(&self.witness))
        });
        Arc::clone(&relay.shared)
    }

    fn relays(&self) -> std::sync::MutexGuard<'_, HashMap<(Scheme, Endpoint), Relay>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// GET on one server, and nothing else.
    fn profile(&self, url: &HttpUrl) -> Profile {
        let settings = &self.registry.settings;
        Profile {
            name: ProfileName::of_packages(),
            rules: vec![Rule {
                scheme: url.scheme,
                hosts: HostPattern::Exactly(url.endpoint.host.clone()),
                port: url.endpoint.port,
                methods: Some(vec![Method::GET.as_str().to_owned()]),
                paths: None,
                tunnel: false,
            }],
            secrets: Vec::new(),
            resolve: settings.resolve.clone(),
            allow_private: settings.allow_private.clone(),
            upstream_ca: settings.upstream_ca.clone(),
            uninspectable: Uninspectable::Pass,
            budget: Budget {
                requests: MAX_REQUESTS,
                connections: MAX_CONNECTIONS,
                sent_bytes: MAX_SENT_BYTES,
                received_bytes: MAX_RECEIVED_BYTES,
                duration: Duration::from_secs(MAX_SECONDS),
            },
            callers: vec![CallerKind::Local, CallerKind::Token],
        }
    }
}

impl Allowed<'_> {
    /// Counts that it came to nothing at the registry. Installers often do not say why: to pip an index that cannot be
    /// reached is one without versions.
    pub(super) fn failed(&self, failure: Failure) -> Failure {
        match failure {
            // Counted by the ledger as what they are, or no fault of the registry's.
            Failure::Denied(_) | Failure::Cache => {}
            Failure::Upstream(_)
            | Failure::NotFound
            | Failure::Status(_)
            | Failure::Malformed
            | Failure::TooLarge
            | Failure::Digest => self
                .relay
                .ledger
                .failed(&self.url.endpoint, failure.reason()),
        }
        failure
    }

    /// Sends the request, and answers with what came, of which at most `most` bytes are taken.
    pub(super) async fn send(&self, accept: &'static str, most: u64) -> Result<Answer, Failure> {
        let uri = upstream::uri(self.url.scheme, &self.url.endpoint, self.url.target())
            .ok_or(Failure::Malformed)?;
        let request = Request::builder()
            .method(Method::GET)
            .uri(uri)
            .header(ACCEPT, accept)
            .header(USER_AGENT, AGENT)
            .body(RequestBody::empty())
            .map_err(|_| Failure::Malformed)?;
        let response = self.relay.upstream().send(request).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Err(Failure::NotFound),
            other => return Err(Failure::Status(other.as_u16())),
        }
        // None was asked for.
        if response.headers().contains_key(CONTENT_ENCODING) {
            return Err(Failure::Malformed);
        }
        if response.body().size_hint().lower() > most {
            return Err(Failure::TooLarge);
        }
        Ok(Answer {
            response,
            left: most,
        })
    }
}

/// The body of a registry's answer.
#[derive(Debug)]
pub(super) struct Answer {
    response: Response<Incoming>,
    left: u64,
}

impl Answer {
    /// The next piece; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = timeout(PIECE_PATIENCE, self.response.body_mut().frame())
                .await
                .map_err(|_| UpstreamFailure::Timeout)?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|_| UpstreamFailure::Reset)?;
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            self.left = self
                .left
                .checked_sub(piece.len() as u64)
                .ok_or(Failure::TooLarge)?;
            return Ok(Some(piece));
        }
    }

    /// All of it.
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}
