//! Every decision of one run: asked of the policy, held to the budget, recorded, counted, in this order.
//!
//! Nothing is dialled or sent but with a decision from here.

use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Mutex};

use crate::{config::Scheme, policy::EgressDenial, types::Endpoint};

/// The most hosts in a report, allowed and denied each; the rest is counted in one line. Stops a program that tries
/// ever new names from filling its own result.
pub const MAX_REPORTED: usize = 64;

/// One decision, as it goes into the record. Nothing in it is a secret.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The method, in the form in which it is sent; none for a connection as such.
    pub method: Option<String>,
    /// How the server is spoken to; none for a tunnel.
    pub scheme: Option<Scheme>,
    /// The canonical host; where it is none, what came, escaped and cut.
    pub host: String,
    /// The port; 0 where there was none.
    pub port: u16,
    /// The canonical path and query; none for a connection.
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
    /// Allowed ones that are not listed.
    pub allowed_omitted: u64,
    /// Denied ones that are not listed.
    pub denied_omitted: u64,
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

/// The counts of one run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    _allowed: BTreeMap<Endpoint, u64>,
    _denied: BTreeMap<(String, u16, &'static str), u64>,
}

impl Ledger {
    pub(super) fn report(&self) -> Report {
        let _ = &self.counts;
        Report::default()
    }
}
