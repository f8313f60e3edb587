//! Every decision of one run: asked of the policy, held to the budget, recorded, counted, in this order.
//!
//! Nothing is dialled or sent but with a decision from here.

mod places;

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

pub(super) use places::{Place, Places, Socket, Turn};

use crate::{
    config::{Profile, Scheme},
    policy::{self, EgressDenial, Route},
    types::{Endpoint, visible},
};

/// The most hosts in a report, allowed and denied each; the rest is counted in one line. Stops a program that tries
/// ever new names from filling its own result.
pub const MAX_REPORTED: usize = 64;
/// The most characters shown of a target that could not be parsed. Stops it from bringing a text into the record.
const MAX_UNPARSED_CHARS: usize = 80;

/// One decision, as it goes into the record. Nothing in it is a secret.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The method, in the form in which it is sent; none for a connection as such. Of a request whose head was refused,
    /// what came, escaped and cut.
    pub method: Option<String>,
    /// How the server is spoken to; none for a tunnel.
    pub scheme: Option<Scheme>,
    /// The canonical host; where it is none, what came, escaped and cut.
    pub host: String,
    /// The port; 0 where there was none.
    pub port: u16,
    /// The canonical path and query; none for a connection. Of a request whose head was refused, what came, escaped and
    /// cut.
    pub target: Option<String>,
    /// The vetted address, once there is one.
    pub address: Option<IpAddr>,
    /// The names of the secrets that were put in.
    pub secrets: Vec<String>,
    /// What was decided.
    pub verdict: Result<(), EgressDenial>,
}

/// The record could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the decision could not be recorded")]
pub struct Unrecorded;

/// Who records decisions.
pub trait Witness: fmt::Debug + Send + Sync {
    /// Records one decision before it takes effect.
    ///
    /// # Errors
    /// [`Unrecorded`]: then it must not take effect.
    fn saw(&self, decided: &Decided) -> Result<(), Unrecorded>;
}

/// What a run reached and what it was denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests, and connections that were passed through, by host and port; at most [`MAX_REPORTED`].
    pub allowed: Vec<Allowed>,
    /// What was denied, by host, port and reason; at most [`MAX_REPORTED`].
    pub denied: Vec<Denied>,
    /// What was allowed and came to nothing, by host, port and reason; at most [`MAX_REPORTED`].
    pub failed: Vec<Failed>,
    /// Allowed ones that are not listed.
    pub allowed_omitted: u64,
    /// Denied ones that are not listed.
    pub denied_omitted: u64,
    /// Failed ones that are not listed.
    pub failed_omitted: u64,
}

impl Report {
    /// How much was allowed in all.
    #[must_use]
    pub fn allowed_count(&self) -> u64 {
        let listed: u64 = self.allowed.iter().map(|one| one.count).sum();
        listed.saturating_add(self.allowed_omitted)
    }

    /// How much was denied in all.
    #[must_use]
    pub fn denied_count(&self) -> u64 {
        let listed: u64 = self.denied.iter().map(|one| one.count).sum();
        listed.saturating_add(self.denied_omitted)
    }

    /// How much of what was allowed failed in all.
    #[must_use]
    pub fn failed_count(&self) -> u64 {
        let listed: u64 = self.failed.iter().map(|one| one.count).sum();
        listed.saturating_add(self.failed_omitted)
    }
}

/// What was allowed to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The canonical host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How often.
    pub count: u64,
}

/// What was denied to one host for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The canonical host, or what came instead, escaped and cut.
    pub host: String,
    /// The port; 0 where there was none.
    pub port: u16,
    /// The constant name of the reason.
    pub reason: &'static str,
    /// How often.
    pub count: u64,
}

/// What one host did not give for one reason, though it was allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The canonical host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The constant name of the reason.
    pub reason: &'static str,
    /// How often.
    pub count: u64,
}

/// What a request is, in canonical form.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLine<'a> {
    /// How the server is spoken to.
    pub(super) scheme: Scheme,
    /// Which server.
    pub(super) endpoint: &'a Endpoint,
    /// The method, as it will be sent.
    pub(super) method: &'a str,
    /// Path and query, as they will be sent: out of `policy::egress::canonical_target`.
    pub(super) target: &'a str,
}

/// What a denial is about, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused<'a> {
    /// A request.
    Request(RequestLine<'a>),
    /// A connection, or a request of which no more is known than where it goes.
    Endpoint(&'a Endpoint),
    /// A request whose head was refused, by its first line as it came: to this server, where its connection has one,
    /// and otherwise to whatever the line says.
    Head(Option<(Scheme, &'a Endpoint)>, &'a [u8]),
    /// A target that could not be parsed, or no target at all: whatever came.
    Unparsed(&'a [u8]),
}

/// The decisions and counts of one run.
#[derive(Debug)]
pub(super) struct Ledger {
    profile: Arc<Profile>,
    witness: Arc<dyn Witness>,
    /// Fires at the end of the run: nothing is allowed any more, and nothing recorded.
    stop: CancellationToken,
    pub(super) places: Places,
    counts: Mutex<Counts>,
    sent: AtomicU64,
    received: AtomicU64,
    /// Whether the record says already that a budget is used up.
    told_sent: AtomicBool,
    told_received: AtomicBool,
}

#[derive(Debug, Default)]
struct Counts {
    /// Connections that were allowed.
    connections: u64,
    /// Decisions so far: what is held to the budget of requests.
    decisions: u64,
    /// Whether the record says already that they are used up.
    told: bool,
    allowed: BTreeMap<(String, u16), u64>,
    denied: BTreeMap<(String, u16, &'static str), u64>,
    failed: BTreeMap<(String, u16, &'static str), u64>,
    allowed_omitted: u64,
    denied_omitted: u64,
    failed_omitted: u64,
}

impl Ledger {
    pub(super) fn new(
        profile: Arc<Profile>,
        witness: Arc<dyn Witness>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            places: Places::new(profile.budget.connections),
            profile,
            witness,
            stop,
            counts: Mutex::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            told_sent: AtomicBool::new(false),
            told_received: AtomicBool::new(false),
        }
    }

    /// A place for one more connection.
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn place(&self) -> Result<Place, EgressDenial> {
        self.places
            .connection()
            .ok_or_else(|| self.denied(Refused::Unparsed(b""), EgressDenial::TooManyConnections))
    }

    /// Decides a connection. Only a denial is recorded and counted: what goes through an allowed one is, each by itself
    /// ([`Self::request`], [`Self::tunnel`]).
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn connection(&self, endpoint: &Endpoint) -> Result<Route, EgressDenial> {
        let refused = |denial| self.denied(Refused::Endpoint(endpoint), denial);
        let route = policy::egress::connection(&self.profile, endpoint).map_err(refused)?;
        if self.stop.is_cancelled() {
            return Err(EgressDenial::Closed);
        }
        let used_up = {
            let mut counts = self.counts();
            counts.connections += 1;
            // As many connections as requests: whoever opens more says nothing on most of them.
            if counts.connections > self.profile.budget.requests {
                counts.decisions = counts.decisions.max(self.profile.budget.requests);
            }
            self.used_up(&counts)
        };
        if used_up {
            return Err(refused(EgressDenial::TooManyRequests));
        }
        Ok(route)
    }

    /// Records that the system's resolver is asked for the name of a connection that is to be passed through, and counts
    /// it. To be called before it is; of requests, their own record does.
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn lookup(&self, endpoint: &Endpoint) -> Result<(), EgressDenial> {
        self.settle(Refused::Endpoint(endpoint).decided(Ok(())))
    }

    /// Records that a connection is passed through to a vetted address. To be called before that is dialled.
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn tunnel(&self, endpoint: &Endpoint, address: IpAddr) -> Result<(), EgressDenial> {
        let mut decided = Refused::Endpoint(endpoint).decided(Ok(()));
        decided.address = Some(address);
        self.settle(decided)
    }

    /// Records the vetted address to which the requests of a server are about to go; each of them is recorded, and
    /// counted, by itself. To be called before it is dialled.
    ///
    /// # Errors
    /// [`EgressDenial::NotRecorded`].
    pub(super) fn dials(&self, endpoint: &Endpoint, address: IpAddr) -> Result<(), EgressDenial> {
        let mut decided = Refused::Endpoint(endpoint).decided(Ok(()));
        decided.address = Some(address);
        self.witness
            .saw(&decided)
            .map_err(|_| EgressDenial::NotRecorded)
    }

    /// Decides and records one request, with the names of the secrets that were put in. To be called before a name is
    /// resolved or a byte sent for it.
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn request(
        &self,
        request: &RequestLine<'_>,
        secrets: Vec<String>,
    ) -> Result<(), EgressDenial> {
        let mut decided = Refused::Request(*request).decided(self.verdict(request));
        decided.secrets = secrets;
        self.settle(decided)
    }

    /// Decides one request before anything is done for it, such as to mint a secret. Only a denial is recorded: what is
    /// allowed is when it is sent, by [`Self::request`].
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn look_at(&self, request: &RequestLine<'_>) -> Result<(), EgressDenial> {
        self.verdict(request)
            .map_err(|denial| self.denied(Refused::Request(*request), denial))
    }

    fn verdict(&self, request: &RequestLine<'_>) -> Result<(), EgressDenial> {
        policy::egress::request(
            &self.profile,
            request.scheme,
            request.endpoint,
            request.method,
            request.target,
        )
    }

    /// Records a denial that was found elsewhere. The answer is what the program is to be told.
    pub(super) fn denied(&self, what: Refused<'_>, denial: EgressDenial) -> EgressDenial {
        self.settle(what.decided(Err(denial)))
            .err()
            .unwrap_or(denial)
    }

    /// How many bytes may still go to the outside; not 0.
    ///
    /// # Errors
    /// [`EgressDenial::TooMuchSent`], recorded once; [`EgressDenial::Closed`].
    pub(super) fn room_to_send(&self, endpoint: &Endpoint) -> Result<u64, EgressDenial> {
        if self.stop.is_cancelled() {
            return Err(EgressDenial::Closed);
        }
        let sent = self.sent.load(Ordering::Relaxed);
        match self.profile.budget.sent_bytes.saturating_sub(sent) {
            0 => Err(self.told_once(&self.told_sent, endpoint, EgressDenial::TooMuchSent)),
            room => Ok(room),
        }
    }

    /// Charges bytes that went to the outside.
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Charges bytes that came from the outside.
    ///
    /// # Errors
    /// [`EgressDenial::TooMuchReceived`], recorded once, or [`EgressDenial::Closed`]: they must not be passed on.
    pub(super) fn received(&self, endpoint: &Endpoint, bytes: usize) -> Result<(), EgressDenial> {
        if self.stop.is_cancelled() {
            return Err(EgressDenial::Closed);
        }
        let before = self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        if before.saturating_add(bytes as u64) > self.profile.budget.received_bytes {
            let denial = EgressDenial::TooMuchReceived;
            return Err(self.told_once(&self.told_received, endpoint, denial));
        }
        Ok(())
    }

    /// Counts what was allowed and came to nothing, so that a program's user learns of it also where the program says
    /// nothing, as some installers do. No decision: it is on record already that it was allowed.
    pub(super) fn failed(&self, endpoint: &Endpoint, reason: &'static str) {
        // What the end of the run cut is nobody's failure.
        if !self.stop.is_cancelled() {
            self.counts().fail(endpoint, reason);
        }
    }

    /// Takes back the count of a request that was allowed and then had no address to go to: it is counted as denied.
    pub(super) fn take_back(&self, endpoint: &Endpoint) {
        let key = (endpoint.host.to_string(), endpoint.port);
        let mut counts = self.counts();
        if let Some(count) = counts.allowed.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.allowed.remove(&key);
            }
        }
    }

    /// What was reached and denied so far.
    pub(super) fn report(&self) -> Report {
        let counts = self.counts();
        let allowed = counts.allowed.iter().map(|((host, port), count)| Allowed {
            host: host.clone(),
            port: *port,
            count: *count,
        });
        let denied = counts
            .denied
            .iter()
            .map(|((host, port, reason), count)| Denied {
                host: host.clone(),
                port: *port,
                reason,
                count: *count,
            });
        let failed = counts
            .failed
            .iter()
            .map(|((host, port, reason), count)| Failed {
                host: host.clone(),
                port: *port,
                reason,
                count: *count,
            });
        Report {
            allowed: allowed.collect(),
            denied: denied.collect(),
            failed: failed.collect(),
            allowed_omitted: counts.allowed_omitted,
            denied_omitted: counts.denied_omitted,
            failed_omitted: counts.failed_omitted,
        }
    }

    fn told_once(
        &self,
        told: &AtomicBool,
        endpoint: &Endpoint,
        denial: EgressDenial,
    ) -> EgressDenial {
        if !told.swap(true, Ordering::Relaxed) {
            self.denied(Refused::Endpoint(endpoint), denial);
        }
        denial
    }

    /// Holds a decision to the budget, records it, counts it; in this order, so that what was not recorded does not
    /// happen and what did happen is in the record.
    fn settle(&self, mut decided: Decided) -> Result<(), EgressDenial> {
        if self.stop.is_cancelled() {
            return Err(EgressDenial::Closed);
        }
        let recorded = {
            let mut counts = self.counts();
            if self.used_up(&counts) {
                decided.verdict = Err(EgressDenial::TooManyRequests);
                !std::mem::replace(&mut counts.told, true)
            } else {
                counts.decisions += 1;
                true
            }
        };
        if recorded && self.witness.saw(&decided).is_err() && decided.verdict.is_ok() {
            decided.verdict = Err(EgressDenial::NotRecorded);
        }
        let verdict = decided.verdict;
        self.counts().count(decided);
        verdict
    }

    fn used_up(&self, counts: &Counts) -> bool {
        counts.decisions >= self.profile.budget.requests
    }

    /// The counts are plain numbers: whatever a thread that panicked left, they can be used.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn fail(&mut self, endpoint: &Endpoint, reason: &'static str) {
        add(
            &mut self.failed,
            (endpoint.host.to_string(), endpoint.port, reason),
            &mut self.failed_omitted,
        );
    }

    fn count(&mut self, decided: Decided) {
        match decided.verdict {
            Ok(()) => add(
                &mut self.allowed,
                (decided.host, decided.port),
                &mut self.allowed_omitted,
            ),
            Err(denial) => add(
                &mut self.denied,
                (decided.host, decided.port, denial.reason()),
                &mut self.denied_omitted,
            ),
        }
    }
}

/// Counts one more of `key`, or one more that is not listed.
fn add<K: Ord>(listed: &mut BTreeMap<K, u64>, key: K, omitted: &mut u64) {
    if listed.len() >= MAX_REPORTED && !listed.contains_key(&key) {
        *omitted += 1;
    } else {
        *listed.entry(key).or_default() += 1;
    }
}

impl Refused<'_> {
    /// As it goes into the record.
    fn decided(self, verdict: Result<(), EgressDenial>) -> Decided {
        let nothing = Decided {
            method: None,
            scheme: None,
            host: String::new(),
            port: 0,
            target: None,
            address: None,
            secrets: Vec::new(),
            verdict,
        };
        match self {
            Self::Request(request) => Decided {
                method: Some(request.method.to_owned()),
                scheme: Some(request.scheme),
                host: request.endpoint.host.to_string(),
                port: request.endpoint.port,
                target: Some(request.target.to_owned()),
                ..nothing
            },
            Self::Endpoint(endpoint) => Decided {
                host: endpoint.host.to_string(),
                port: endpoint.port,
                ..nothing
            },
            Self::Head(to, line) => {
                let mut words = line.split(|b| *b == b' ');
                let (method, target) = match (words.next(), words.next()) {
                    (Some(method), Some(target)) => (Some(unparsed(method)), unparsed(target)),
                    _ => (None, unparsed(line)),
                };
                match to {
                    Some((scheme, endpoint)) => Decided {
                        method,
                        scheme: Some(scheme),
                        target: Some(target),
                        ..Self::Endpoint(endpoint).decided(verdict)
                    },
                    None => Decided {
                        method,
                        host: target,
                        ..nothing
                    },
                }
            }
            Self::Unparsed(bytes) => Decided {
                host: unparsed(bytes),
                ..nothing
            },
        }
    }
}

/// What could not be parsed, escaped and cut.
fn unparsed(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(MAX_UNPARSED_CHARS)];
    let shown = visible::escape_name(start);
    shown.chars().take(MAX_UNPARSED_CHARS).collect()
}

#[cfg(test)]
mod tests;
