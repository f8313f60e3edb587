//! The secrets of one run: minted before it begins, put into requests to their own hosts, taken out of answers.
//!
//! A secret's value lives here and on the wire to its hosts, nowhere else: never in an error, a log line or a frame.
//! What is kept here is overwritten when it is dropped; the tables that find it and the headers that carry it are
//! freed as any other memory is.
//!
//! # Theory of operation
//! [`source`] gets a secret, [`placeholder`] makes the stand-in that a program sees in its place, [`inject`] puts it
//! into a request. [`redact`] takes it out of an answer: [`decode`] undoes the body's coding, [`forms`] knows how a
//! credential may be spelt, [`search`] finds all of that in bytes that come in pieces.

mod decode;
pub(crate) mod forms;
mod inject;
mod placeholder;
pub(crate) mod redact;
pub(crate) mod search;
mod source;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use hyper::HeaderMap;
use tokio::{sync::Mutex, time::Instant};
use zeroize::Zeroizing;

use crate::{
    config::{Injection, Profile, Scheme, SecretSource, SecretSpec},
    types::{Endpoint, Secret},
};

pub(super) use redact::{BodyRedactor, Plan, Redactor, Unreadable};
use redact::{Known, narrow_codings};

/// How long a secret that could not be minted anew counts as not available. Stops a program from having the
/// operator's command run over and over.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

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
pub struct Vault {
    kept: Vec<Kept>,
    /// None where there are no secrets.
    known: Option<Arc<Known>>,
}

/// One secret.
#[derive(Debug)]
struct Kept {
    spec: Arc<SecretSpec>,
    /// What the program sees in its place.
    stand_in: Option<String>,
    minted: Mutex<Minted>,
}

/// What a source gave the last time that it was asked.
#[derive(Debug)]
struct Minted {
    secret: Result<Secret, String>,
    /// When it has to be asked again; never for what does not run out.
    until: Option<Instant>,
}

impl Vault {
    /// Whether a secret could be had now; nothing where only running its command would tell.
    pub async fn look_at(spec: &SecretSpec) -> Option<Result<(), SecretError>> {
        if matches!(spec.from, SecretSource::Command { .. }) {
            return None;
        }
        let got = source::obtain(&spec.from).await;
        Some(got.map(drop).map_err(|why| SecretError {
            name: spec.name.clone(),
            why,
        }))
    }

    /// Gets every secret of a profile from its source, all at once.
    ///
    /// # Errors
    /// [`SecretError`] for the first that cannot be had.
    pub async fn open(profile: &Arc<Profile>) -> Result<Self, SecretError> {
        if profile.secrets.is_empty() {
            return Ok(Self::default());
        }
        let opened = try_join_all(profile.secrets.iter().map(Kept::open)).await?;
        let (kept, credentials): (Vec<Kept>, Vec<Vec<Secret>>) = opened.into_iter().unzip();
        let known = Known::new(credentials.concat()).map_err(|too_many| SecretError {
            name: format!("of the profile {}", profile.name),
            why: too_many.to_string(),
        })?;
        Ok(Self {
            kept,
            known: Some(Arc::new(known)),
        })
    }

    /// The variables in which programs find their stand-ins.
    #[must_use]
    pub fn env(&self) -> BTreeMap<String, String> {
        self.kept
            .iter()
            .filter_map(|kept| match (&kept.spec.inject, &kept.stand_in) {
                (Injection::Placeholder { variable }, Some(stand_in)) => {
                    Some((variable.clone(), stand_in.clone()))
                }
                _ => None,
            })
            .collect()
    }

    /// Puts the secrets of this very endpoint into a request's headers, and returns their names; over anything but
    /// [`Scheme::Https`] there are none. Of the codings that the program takes it leaves those that can be searched.
    /// To be called for every request that is about to be sent, after the policy allowed it and before it is recorded.
    ///
    /// # Errors
    /// [`SecretError`] where a secret has run out and cannot be minted anew: then the request must not be sent.
    pub(super) async fn prepare(
        &self,
        endpoint: &Endpoint,
        scheme: Scheme,
        headers: &mut HeaderMap,
    ) -> Result<Vec<String>, SecretError> {
        let Some(known) = &self.known else {
            return Ok(Vec::new());
        };
        narrow_codings(headers);
        if scheme != Scheme::Https {
            return Ok(Vec::new());
        }
        let mut swaps = Vec::new();
        let mut set = Vec::new();
        let mut used = Vec::new();
        for kept in &self.kept {
            if !kept.spec.hosts.contains(endpoint) {
                continue;
            }
            match &kept.stand_in {
                Some(stand_in) if inject::has(headers, stand_in) => {
                    swaps.push((stand_in.clone(), kept.current(known).await?));
                }
                Some(_) => continue,
                None => set.push((kept, kept.current(known).await?)),
            }
            used.push(kept.spec.name.clone());
        }
        // The program's own headers first: nothing is looked for in what a secret was put into.
        inject::swap(headers, &swaps).map_err(|error| SecretError {
            name: used.join(", "),
            why: error.to_string(),
        })?;
        for (kept, secret) in set {
            kept.set(headers, &secret)?;
        }
        Ok(used)
    }

    /// What takes secrets out of answers, whichever host they come from; none where the profile has no secrets.
    pub(super) fn redactor(&self) -> Option<Redactor> {
        self.known.clone().map(Redactor::new)
    }
}

impl Kept {
    /// Mints one secret; also returns what has to be found of it.
    async fn open(spec: &Arc<SecretSpec>) -> Result<(Self, Vec<Secret>), SecretError> {
        let unavailable = |why| SecretError {
            name: spec.name.clone(),
            why,
        };
        let began = Instant::now();
        let secret = source::obtain(&spec.from).await.map_err(unavailable)?;
        let stand_in = match &spec.inject {
            Injection::Placeholder { .. } => Some(
                placeholder::stand_in(&secret).map_err(|error| unavailable(error.to_string()))?,
            ),
            Injection::Header { .. } | Injection::Basic { .. } => None,
        };
        let credentials = credentials(spec, &secret);
        let kept = Self {
            stand_in,
            minted: Mutex::new(Minted {
                secret: Ok(secret),
                until: ttl(&spec.from).map(|ttl| began + ttl),
            }),
            spec: Arc::clone(spec),
        };
        Ok((kept, credentials))
    }

    /// The secret as it is good now. Requests that come while it is minted wait for it together.
    async fn current(&self, known: &Known) -> Result<Secret, SecretError> {
        let mut minted = self.minted.lock().await;
        if minted.until.is_some_and(|until| until <= Instant::now()) {
            *minted = self.mint(known).await;
        }
        minted.secret.clone().map_err(|why| SecretError {
            name: self.spec.name.clone(),
            why,
        })
    }

    /// Mints it anew. It is known to whoever redacts before anybody can send it.
    async fn mint(&self, known: &Known) -> Minted {
        // From before the command begins: its own clock began at the latest when it printed.
        let began = Instant::now();
        let secret = source::obtain(&self.spec.from).await.and_then(|secret| {
            known
                .add(credentials(&self.spec, &secret))
                .map_err(|too_many| too_many.to_string())?;
            Ok(secret)
        });
        let until = match &secret {
            Ok(_) => ttl(&self.spec.from).map(|ttl| began + ttl),
            Err(_) => Some(Instant::now() + RETRY_PAUSE),
        };
        Minted { secret, until }
    }

    /// Sets the header that this secret is sent in.
    fn set(&self, headers: &mut HeaderMap, secret: &Secret) -> Result<(), SecretError> {
        let done = match &self.spec.inject {
            Injection::Header { name, format } => {
                let value = Zeroizing::new(format.replace("{}", secret.expose()));
                inject::set(headers, name, &value)
            }
            Injection::Basic { user } => {
                let pair = inject::basic_pair(user, secret);
                let value = Zeroizing::new(format!("Basic {}", *pair));
                inject::set(headers, "authorization", &value)
            }
            Injection::Placeholder { .. } => Ok(()),
        };
        done.map_err(|error| SecretError {
            name: self.spec.name.clone(),
            why: error.to_string(),
        })
    }
}

/// How long what a source says can be used; none for what does not run out.
fn ttl(source: &SecretSource) -> Option<Duration> {
    match source {
        SecretSource::Command { ttl, .. } => Some(*ttl),
        SecretSource::Env(_) | SecretSource::File(_) => None,
    }
}

/// What has to be found in answers: the secret, and the pair that basic authentication makes of it. A header around
/// it needs no mention: the secret is found in it in every form.
fn credentials(spec: &SecretSpec, secret: &Secret) -> Vec<Secret> {
    let mut all = vec![secret.clone()];
    if let Injection::Basic { user } = &spec.inject {
        all.push(Secret::new(inject::basic_pair(user, secret).to_string()));
    }
    all
}
