//! Every decision of one run: asked of the policy, held to the budget, recorded, counted, in this order.
//!
//! Nothing is dialled or sent but with a decision from here.

use std::{fmt, net::IpAddr, sync::Arc};

use crate::{
    config::{Profile, Scheme},
    policy::{EgressDenial, Route},
    types::Endpoint,
};

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

/// What a request is, in canonical form.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLine<'a> {
    /// How the server is spoken to.
    pub(super) scheme: Scheme,
    /// Which server.
    pub(super) endpoint: &'a Endpoint,
    /// The method, as it will be sent.
    pub(super) method: &'a str,
    /// Path and query, as they will be sent; begins with `/`, or is `*`.
    pub(super) target: &'a str,
}

/// What a denial is about, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused<'a> {
    /// A request.
    Request(RequestLine<'a>),
    /// A connection, or a request of which no more is known than where it goes.
    Endpoint(&'a Endpoint),
    /// A target that could not be parsed, or no target at all: whatever came.
    Unparsed(&'a [u8]),
}

/// The decisions and counts of one run.
#[derive(Debug)]
pub(super) struct Ledger {
    profile: Arc<Profile>,
    witness: Arc<dyn Witness>,
}

impl Ledger {
    pub(super) fn new(profile: Arc<Profile>, witness: Arc<dyn Witness>) -> Self {
        Self { profile, witness }
    }

    /// Decides a connection. Only a denial is recorded and counted: what goes through an allowed one is, each by itself
    /// ([`Self::request`], [`Self::tunnel`]).
    ///
    /// # Errors
    /// The denial, recorded.
    pub(super) fn connection(&self, endpoint: &Endpoint) -> Result<Route, EgressDenial> {
        let _ = endpoint;
        Err(EgressDenial::HostNotAllowed)
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
        let _ = (request, secrets);
        Err(EgressDenial::HostNotAllowed)
    }

    /// Records a denial that was found elsewhere. The answer is what the program is to be told.
    pub(super) fn denied(&self, what: Refused<'_>, denial: EgressDenial) -> EgressDenial {
        let _ = (what, &self.witness, &self.profile);
        denial
    }

    /// Charges bytes to the outside.
    ///
    /// # Errors
    /// [`EgressDenial::TooMuchSent`], recorded once.
    pub(super) fn sent(&self, bytes: usize) -> Result<(), EgressDenial> {
        let _ = (self, bytes);
        Ok(())
    }

    /// Charges bytes from the outside.
    ///
    /// # Errors
    /// [`EgressDenial::TooMuchReceived`], recorded once.
    pub(super) fn received(&self, bytes: usize) -> Result<(), EgressDenial> {
        let _ = (self, bytes);
        Ok(())
    }

    pub(super) fn report(&self) -> Report {
        let _ = self;
        Report::default()
    }
}
