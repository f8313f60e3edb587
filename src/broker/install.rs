//! Packages before a program: the image's installer runs in the sandbox, with a way to the gateway and to nothing else,
//! and that way is closed before anything more happens.
//!
//! A failed installation is a result, not a refusal: what the installer says is what helps.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    Broker, Refusal,
    execute::{self, Account, Job, NotStarted},
    outcome::{self, Outcome},
    outlet::{Clerk, Doorway},
    record::Draft,
};
use crate::{
    egress::{self, Registry},
    engine::Sandbox,
    policy::InstallPlan,
    types::{Caller, ProfileName, RunId, Status},
};

/// What an installation needs, found before anything is started.
#[derive(Debug)]
pub(super) struct Installation {
    pub(super) plan: InstallPlan,
    registry: Registry,
}

/// What an installation came to.
#[derive(Debug)]
pub(super) struct Installed {
    /// The installer's own account.
    pub(super) account: Account,
    /// What it reached, and what it was denied.
    pub(super) egress: egress::Report,
}

impl Installed {
    /// How the installer ended.
    pub(super) fn outcome(&self) -> Outcome {
        outcome::judge(self.account.cause, self.account.end)
    }

    /// Whether everything is there now.
    pub(super) fn is_complete(&self) -> bool {
        let outcome = self.outcome();
        outcome.status == Status::Exited && outcome.exit_code == Some(0)
    }

    /// How long it took, from the request to its end.
    pub(super) fn duration(&self) -> Duration {
        self.account.start + self.account.duration
    }
}

impl Broker {
    /// Finds what an installation needs.
    pub(super) async fn installation(
        &self,
        plan: Option<&InstallPlan>,
    ) -> Result<Option<Installation>, Refusal> {
        let Some(plan) = plan else {
            return Ok(None);
        };
        let found = self.packages.registry(plan.kind).await;
        let registry = found
            .map_err(|error| Refusal::new("packages_registry", error.to_string()))?
            // The policy has read the same settings.
            .ok_or_else(Refusal::internal)?;
        Ok(Some(Installation {
            plan: plan.clone(),
            registry: registry.clone(),
        }))
    }

    /// Records what is about to be installed, and installs it.
    pub(super) async fn install(
        &self,
        sandbox: &Sandbox,
        installation: &Installation,
        (caller, run_id): (&Caller, &RunId),
        cancelled: &CancellationToken,
        draft: &Draft,
    ) -> Result<Installed, Refusal> {
        let network = ProfileName::of_packages();
        self.recorder
            .begin_install(draft, &network, &installation.plan)?;
        let clerk = Clerk::new(Arc::clone(&self.recorder), caller, run_id, network.as_str());
        // Nothing of the gateway is under TLS, so there is nothing to trust.
        let door = sandbox.open_egress(Vec::new()).await?;
        let gateway = Arc::new(self.packages.gateway(
            &installation.registry,
            &door.proxy(),
            Arc::new(clerk),
        ));
        let job = Job::install(sandbox, &installation.plan, &gateway.index());
        let mut doorway = Doorway::new(door);
        let stop = cancelled.child_token();
        // Boxed, since it would otherwise be the bulk of every call that waits.
        let run = Box::pin(execute::execute(
            sandbox,
            job,
            self.store.spool_dir(),
            &stop,
        ));
        let account = tokio::select! {
            account = run => account.map_err(|NotStarted(error)| Refusal::from(error))?,
            () = async {
                self.stopping.cancelled().await;
                stop.cancel();
                std::future::pending::<()>().await;
            } => return Err(Refusal::closing()),
            never = doorway.serve(|connection| {
                let gateway = Arc::clone(&gateway);
                async move { gateway.serve(connection).await }
            }) => match never {},
        };
        // Nothing inside reaches anything from here on.
        gateway.close();
        doorway.shut().await;
        Ok(Installed {
            account,
            egress: gateway.report(),
        })
    }
}
