//! Sessions: a sandbox that outlives a run, because somebody asked for it.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Broker, Refusal,
    record::Draft,
    report::{NotInstalled, Opened, Opening},
    room::Room,
};
use crate::{
    audit::Action,
    policy::SessionAsk,
    pool::Taken,
    session::Ended,
    types::{Caller, RunId, SandboxId, clock},
};

/// How long whoever closes a session waits for its container to be gone. Stops a daemon that hangs from holding a caller
/// for as long as a removal is tried.
const CLOSE_PATIENCE: Duration = Duration::from_secs(20);

impl Broker {
    /// Opens a session of `caller`.
    pub async fn open_session(
        &self,
        caller: &Caller,
        ask: &SessionAsk,
        cancelled: &CancellationToken,
    ) -> Result<Opening, Refusal> {
        let mut draft = Draft::new(Action::OpenSession, caller);
        let result = self.open(caller, ask, cancelled, &mut draft).await;
        self.recorder.record(draft, result)
    }

    async fn open(
        &self,
        caller: &Caller,
        ask: &SessionAsk,
        cancelled: &CancellationToken,
        draft: &mut Draft,
    ) -> Result<Opening, Refusal> {
        let (launch, terms, install) = self.policy.open_session(caller, ask)?;
        draft.packages(install.as_ref());
        draft.bounds(&launch.action().limits, &terms.network);
        draft.language(&terms.language);
        let installation = self.installation(install.as_ref()).await?;
        let place = self.sessions.reserve(caller)?;
        let gate = self.gate.enter(cancelled).await?;
        let Taken { sandbox, origin } = self.take(&launch, cancelled).await?;
        tracing::debug!(sandbox = %sandbox.id(), origin = origin.as_str(), "a sandbox for a session");
        draft.sandbox(sandbox.image_id(), sandbox.runtime());
        let id = sandbox.id().clone();
        draft.session(&id);
        if let Some(installation) = &installation {
            let run_id = &RunId::of_sandbox(&id);
            let installed = self
                .install(&sandbox, installation, (caller, run_id), cancelled, draft)
                .await?;
            draft.egress(&installed.egress);
            if !installed.is_complete() {
                draft.failed("packages_not_installed".to_owned());
                self.destroy(Arc::new(Room::new(sandbox, gate)));
                return Ok(Opening::NotInstalled(NotInstalled::of(&installed)));
            }
        }
        let runtime = sandbox.runtime().to_owned();
        let room = Arc::new(Room::new(sandbox, gate));
        if installation.is_some() {
            // The installer was the first.
            room.use_for_run();
        }
        let idle = terms.idle;
        let network = terms.network.name().to_owned();
        let languages = terms
            .image
            .languages
            .iter()
            .map(|language| language.name.clone())
            .collect();
        let opened = match self.sessions.insert(place, id, terms, room) {
            Ok(opened) => opened,
            Err(room) => {
                self.destroy(room);
                return Err(Refusal::closing());
            }
        };
        Ok(Opening::Opened(Opened {
            session: opened.id,
            expires_at: clock::told(opened.expires_at),
            idle_seconds: idle.as_secs(),
            languages,
            image: launch.action().image.clone(),
            runtime,
            network,
        }))
    }

    /// Closes a session of `caller` and destroys everything in it.
    pub async fn close_session(
        &self,
        caller: &Caller,
        session: &str,
    ) -> Result<SandboxId, Refusal> {
        let mut draft = Draft::new(Action::CloseSession, caller);
        let result = self.close(caller, session, &mut draft).await;
        self.recorder.record(draft, result)
    }

    async fn close(
        &self,
        caller: &Caller,
        session: &str,
        draft: &mut Draft,
    ) -> Result<SandboxId, Refusal> {
        // The sessions know every id that parses; this one is only for the answer.
        let id = SandboxId::parse(session).map_err(|_| crate::session::SessionError::Unknown)?;
        draft.session(&id);
        let ended = self.sessions.close(caller, session).await?;
        if let Some(ended) = ended {
            let gone = timeout(CLOSE_PATIENCE, ended.sandbox.sandbox.destroy()).await;
            drop(ended.place);
            if !matches!(gone, Ok(Ok(()))) {
                tracing::warn!(session = %id, ?gone, "a session's sandbox could not be destroyed yet");
                return Err(Refusal::not_gone_yet());
            }
        }
        Ok(id)
    }

    /// Destroys what a session leaves, in the background; its place is free once it is gone.
    pub(super) fn bury(&self, ended: Ended<Arc<Room>>) {
        self.tasks.spawn(async move {
            tracing::debug!(session = %ended.id, why = %ended.why, "a session ended");
            if let Err(error) = ended.sandbox.sandbox.destroy().await {
                tracing::warn!(session = %ended.id, %error, "a session's sandbox could not be destroyed yet");
            }
            drop(ended);
        });
    }

    /// Destroys a sandbox that became nobody's.
    fn destroy(&self, room: Arc<Room>) {
        self.tasks.spawn(async move {
            if let Err(error) = room.sandbox.destroy().await {
                tracing::warn!(%error, "a sandbox could not be destroyed yet");
            }
        });
    }

    /// Ends every session; running calls are given `patience` to stop.
    pub(super) async fn end_sessions(&self, patience: Duration) {
        for ended in self.sessions.drain(patience).await {
            self.bury(ended);
        }
    }
}
