//! The sessions of the protocol's older revisions, of which there are only so many.
//!
//! They are not the sessions of `open_session`: those belong to the caller and outlive these.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::server_side_http::ServerSseMessage,
        streamable_http_server::{
            SessionId, SessionManager,
            session::local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};
use tokio::time::Instant;

use super::vetted::UnderWay;

/// Clients of older revisions at a time. Each costs a task and buffers until it says goodbye or falls silent:
/// stops a client that only ever says hello from filling the memory.
const MAX_SESSIONS: usize = 256;
/// How long a client must have been silent, with nothing under way, before it makes room for another one. Stops clients
/// that say hello before each call and never goodbye from keeping everybody out for longer; and a burst of them from
/// throwing out who has just come. Who was thrown out is told that its session is gone, and says hello again.
const LEAST_SILENCE: Duration = Duration::from_mins(1);

/// Why there is no such session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    /// There are too many.
    #[error("{MAX_SESSIONS} clients are connected: no more are taken")]
    Full,
    /// What the SDK says.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// The SDK's sessions, bounded.
pub(super) struct Sessions {
    local: LocalSessionManager,
    /// When each was last heard of.
    heard: Mutex<HashMap<SessionId, Instant>>,
    under_way: UnderWay,
}

impl Sessions {
    /// Sessions that end after `idle` without a word from their clients.
    pub(super) fn new(idle: Duration, under_way: UnderWay) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        Self {
            local,
            heard: Mutex::default(),
            under_way,
        }
    }

    fn heard(&self) -> MutexGuard<'_, HashMap<SessionId, Instant>> {
        // Nothing that can panic happens under the lock.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that has been silent for longest, if that is long and nothing of it is under way.
    fn forgotten(&self) -> Option<SessionId> {
        let busy = self.under_way.sessions();
        let heard = self.heard();
        let idle = heard.iter().filter(|(id, _)| !busy.contains(&***id));
        idle.min_by_key(|(_, since)| **since)
            .filter(|(_, since)| since.elapsed() >= LEAST_SILENCE)
            .map(|(id, _)| id.clone())
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        if self.local.sessions.read().await.len() >= MAX_SESSIONS {
            let forgotten = self.forgotten().ok_or(SessionsError::Full)?;
            tracing::debug!("a client that was silent for long makes room for another one");
            self.close_session(&forgotten).await?;
        }
        let (id, transport) = self.local.create_session().await?;
        self.heard().insert(id.clone(), Instant::now());
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    /// The SDK asks before everything that it does for a client.
    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        if let Some(since) = self.heard().get_mut(id) {
            *since = Instant::now();
        }
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.heard().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.resume(id, last_event_id).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        Sessions::new(Duration::from_hours(1), UnderWay::default())
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_only_so_many() {
        let sessions = sessions();
        let mut open = Vec::new();
        for _ in 0..MAX_SESSIONS {
            open.push(sessions.create_session().await.unwrap());
        }
        assert!(matches!(
            sessions.create_session().await,
            Err(SessionsError::Full)
        ));
        sessions.close_session(&open[0].0).await.unwrap();
        assert!(sessions.create_session().await.is_ok());
        assert_eq!(sessions.heard().len(), MAX_SESSIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_silent_for_longest_and_waits_for_nothing_makes_room() {
        let sessions = sessions();
        let mut open = Vec::new();
        for _ in 0..MAX_SESSIONS {
            open.push(sessions.create_session().await.unwrap());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        tokio::time::advance(LEAST_SILENCE * 59 / 60).await;
        assert!(sessions.has_session(&open[0].0).await.unwrap(), "it speaks");
        let waits = sessions
            .under_way
            .take((open[1].0.to_string(), rmcp::model::RequestId::Number(7)));
        tokio::time::advance(LEAST_SILENCE / 60).await;
        sessions.create_session().await.unwrap();
        let mut gone = Vec::new();
        for (at, (id, _)) in open.iter().enumerate() {
            if !sessions.has_session(id).await.unwrap() {
                gone.push(at);
            }
        }
        assert_eq!(gone, [2]);
        drop(waits);
    }
}
