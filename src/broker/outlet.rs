//! The way out of one run: opened when its program is about to start, closed when it has ended.
//!
//! The engine carries connections from inside, the relay decides on them and sends them on, and every decision is a
//! line in the audit log before it takes effect. A run without a profile has none of this.

use std::{collections::BTreeMap, sync::Arc};

use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::{Refusal, record::Recorder};
use crate::{
    audit::{Action, Decision, EgressRecord, Event},
    config::{Profile, Scheme},
    egress::{Decided, Relay, Report, Unrecorded, Vault, Witness},
    engine::{
        Sandbox,
        tether::{Connection, Door},
    },
    policy::{self, Network},
    types::{Caller, RunId},
};

/// What must be there before anything is started: the profile, and its secrets.
#[derive(Debug)]
pub(super) struct Credentials {
    profile: Arc<Profile>,
    vault: Vault,
}

impl Credentials {
    /// Gets the secrets of a network's profile from their sources; none for no network.
    pub(super) async fn of(network: &Network) -> Result<Option<Self>, Refusal> {
        let Some(profile) = network.profile() else {
            return Ok(None);
        };
        let vault = Vault::open(profile)
            .await
            .map_err(|error| Refusal::new("secret", error.to_string()))?;
        Ok(Some(Self {
            profile: Arc::clone(profile),
            vault,
        }))
    }
}

/// The way out of one run. Dropping it cuts every connection.
#[derive(Debug)]
pub(super) struct Outlet {
    relay: Arc<Relay>,
    variables: BTreeMap<String, String>,
    _serving: AbortOnDropHandle<()>,
}

impl Outlet {
    /// Opens a way out of `sandbox`.
    pub(super) async fn open(
        sandbox: &Sandbox,
        credentials: Credentials,
        image_env: &BTreeMap<String, String>,
        witness: Arc<dyn Witness>,
    ) -> Result<Self, Refusal> {
        let relay = Arc::new(Relay::new(credentials.profile, credentials.vault, witness));
        let door = sandbox.open_egress(relay.trust().to_vec()).await?;
        let mut variables = policy::variables(&door.proxy(), door.trust_file());
        variables.extend(image_env.clone());
        variables.extend(relay.env());
        let serving = Arc::clone(&relay);
        let serving = carry(door, move |connection| {
            let relay = Arc::clone(&serving);
            async move { relay.serve(connection).await }
        });
        Ok(Self {
            relay,
            variables,
            _serving: serving,
        })
    }

    /// What programs find in their environment.
    pub(super) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Cuts every connection, lets no new one in, and tells what there was.
    pub(super) fn close(self) -> Report {
        self.relay.close();
        self.relay.report()
    }
}

/// Serves what comes through a door, each connection by itself; the door closes when the handle is dropped.
pub(super) fn carry<F, S>(mut door: Door, serve: F) -> AbortOnDropHandle<()>
where
    F: Fn(Connection) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Some(connection) = door.next().await {
            while connections.try_join_next().is_some() {}
            connections.spawn(serve(connection));
        }
    }))
}

/// Writes the decisions of one run into the audit log.
#[derive(Debug)]
pub(super) struct Clerk {
    recorder: Arc<Recorder>,
    run_id: RunId,
    caller: Caller,
    network: String,
}

impl Clerk {
    pub(super) fn new(
        recorder: Arc<Recorder>,
        caller: &Caller,
        run_id: &RunId,
        network: &str,
    ) -> Self {
        Self {
            recorder,
            run_id: run_id.clone(),
            caller: caller.clone(),
            network: network.to_owned(),
        }
    }
}

impl Witness for Clerk {
    fn saw(&self, decided: &Decided) -> Result<(), Unrecorded> {
        let decision = match decided.verdict {
            Ok(()) => Decision::Allow {
                reason: "egress_profile".to_owned(),
            },
            Err(denial) => Decision::Deny {
                reason: denial.reason().to_owned(),
            },
        };
        let event = Event {
            run_id: Some(self.run_id.clone()),
            network: Some(self.network.clone()),
            egress: Some(EgressRecord {
                method: decided.method.clone(),
                scheme: decided.scheme.map(|scheme| {
                    match scheme {
                        Scheme::Https => "https",
                        Scheme::Http => "http",
                    }
                    .to_owned()
                }),
                host: decided.host.clone(),
                port: decided.port,
                target: decided.target.clone(),
                address: decided.address.map(|address| address.to_string()),
                secrets: decided.secrets.clone(),
            }),
            ..Event::new(Action::Egress, self.caller.clone(), decision)
        };
        self.recorder.note(event).map_err(|error| {
            tracing::error!(%error, "a decision on egress could not be recorded");
            Unrecorded
        })
    }
}
