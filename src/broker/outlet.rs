//! The way out of one run: opened when its program is about to start, closed when it has ended.
//!
//! The engine carries connections from inside, the relay decides on them and sends them on, and every decision is a
//! line in the audit log before it takes effect. A run without a profile has none of this.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Broker, Refusal, record::Recorder};
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

impl Broker {
    /// Gets the secrets of a network's profile from their sources; none for no network.
    pub(super) async fn credentials(
        &self,
        network: &Network,
        cancelled: &CancellationToken,
    ) -> Result<Option<Credentials>, Refusal> {
        let Some(profile) = network.profile() else {
            return Ok(None);
        };
        let vault = tokio::select! {
            vault = Vault::open(profile) => vault?,
            () = cancelled.cancelled() => return Err(Refusal::cancelled()),
            () = self.stopping.cancelled() => return Err(Refusal::closing()),
        };
        Ok(Some(Credentials {
            profile: Arc::clone(profile),
            vault,
        }))
    }
}

/// A door in a sandbox, and what comes through it. Dropping it shuts the door and cuts every connection.
#[derive(Debug)]
pub(super) struct Doorway {
    door: Door,
    connections: JoinSet<()>,
}

impl Doorway {
    pub(super) fn new(door: Door) -> Self {
        Self {
            door,
            connections: JoinSet::new(),
        }
    }

    /// Serves what comes, each connection by itself, for as long as it is polled. Not in a task of its own: when a call
    /// is dropped its way out is shut at that moment, so that the session's next run finds it shut.
    pub(super) async fn serve<S>(&mut self, serve: impl Fn(Connection) -> S) -> Infallible
    where
        S: Future<Output = ()> + Send + 'static,
    {
        while let Some(connection) = self.door.next().await {
            while self.connections.try_join_next().is_some() {}
            self.connections.spawn(serve(connection));
        }
        // The sandbox is lost. The run notices by itself.
        std::future::pending().await
    }

    /// Shuts the door, and returns when nobody serves any more.
    pub(super) async fn shut(mut self) {
        drop(self.door);
        self.connections.shutdown().await;
    }
}

/// The way out of one run. Dropping it cuts every connection.
#[derive(Debug)]
pub(super) struct Outlet {
    relay: Arc<Relay>,
    doorway: Doorway,
}

impl Outlet {
    /// Opens a way out of `sandbox`, and tells what programs have to find in their environment.
    pub(super) async fn open(
        sandbox: &Sandbox,
        credentials: Credentials,
        image_env: &BTreeMap<String, String>,
        witness: Arc<dyn Witness>,
    ) -> Result<(Self, BTreeMap<String, String>), Refusal> {
        let relay = Relay::new(credentials.profile, credentials.vault, witness);
        let door = sandbox.open_egress(relay.trust().to_vec()).await?;
        let mut variables = policy::variables(&door.proxy(), door.trust_file());
        variables.extend(image_env.clone());
        variables.extend(relay.env());
        let outlet = Self {
            relay: Arc::new(relay),
            doorway: Doorway::new(door),
        };
        Ok((outlet, variables))
    }

    /// Serves what comes, for as long as it is polled.
    pub(super) async fn serve(&mut self) -> Infallible {
        let relay = &self.relay;
        let serve = |connection| {
            let relay = Arc::clone(relay);
            async move { relay.serve(connection).await }
        };
        self.doorway.serve(serve).await
    }

    /// Cuts every connection, lets no new one in, and tells what there was.
    pub(super) async fn close(self) -> Report {
        self.relay.close();
        self.doorway.shut().await;
        self.relay.report()
    }
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
                // What asks for a connection alone asks for it by CONNECT, or by what means the same in SOCKS.
                method: decided
                    .method
                    .clone()
                    .or_else(|| (decided.port != 0).then(|| "CONNECT".to_owned())),
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
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a decision on egress could not be recorded"
            );
            Unrecorded
        })
    }
}
