//! The secrets of one run: minted before it begins, put into requests to their own hosts, taken out of answers.
//!
//! A secret's value lives here and on the wire to its hosts, nowhere else: never in an error, a log line or a frame.

mod redact;

use std::{collections::BTreeMap, sync::Arc};

use hyper::HeaderMap;

use crate::{
    config::{Profile, Scheme},
    types::Endpoint,
};

pub(super) use redact::{BodyRedactor, Plan, Redactor, Unreadable};

/// Why a secret is not there. Names the source, never what it said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret {name} is not available: {why}")]
pub struct SecretError {
    /// The secret's name in the configuration.
    pub name: String,
    /// What is wrong with its source.
    pub why: String,
}

/// The secrets of one run.
#[derive(Debug, Default)]
pub struct Vault {}

impl Vault {
    /// Gets every secret of a profile from its source.
    ///
    /// # Errors
    /// [`SecretError`] for the first that cannot be had.
    pub async fn open(profile: &Arc<Profile>) -> Result<Self, SecretError> {
        let _ = profile;
        std::future::ready(Ok(Self::default())).await
    }

    /// The variables in which programs find their stand-ins.
    #[must_use]
    pub fn env(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Puts the secrets of this very endpoint into a request's headers, and returns their names. Does nothing but
    /// over [`Scheme::Https`]. To be called for every request that is about to be sent, after the policy allowed it and
    /// before it is recorded.
    ///
    /// # Errors
    /// [`SecretError`] where a secret has run out and cannot be minted anew: then the request must not be sent.
    pub(super) async fn prepare(
        &self,
        endpoint: &Endpoint,
        scheme: Scheme,
        headers: &mut HeaderMap,
    ) -> Result<Vec<String>, SecretError> {
        let _ = (endpoint, scheme, headers);
        std::future::ready(Ok(Vec::new())).await
    }

    /// What takes secrets out of answers, whichever host they come from; none where the profile has no secrets.
    pub(super) fn redactor(&self) -> Option<Redactor> {
        None
    }
}
