//! The sessions of the protocol's older revisions, of which there are only so many.
//!
//! They are not the sessions of `open_session`: those belong to the caller and outlive these.

use std::time::Duration;

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

/// Clients of older revisions at a time. Each costs a task and buffers until it says goodbye or falls silent:
/// stops a client that only ever says hello from filling the memory.
const MAX_SESSIONS: usize = 256;

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
pub(super) struct Sessions(LocalSessionManager);

impl Sessions {
    /// Sessions that end after `idle` without a word from their clients.
    pub(super) fn new(idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        Self(local)
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        if self.0.sessions.read().await.len() >= MAX_SESSIONS {
            return Err(SessionsError::Full);
        }
        Ok(self.0.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.0.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.0.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        Ok(self.0.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.0.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        Ok(self.0.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.0.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.0.resume(id, last_event_id).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_are_only_so_many() {
        let sessions = Sessions::new(Duration::from_mins(1));
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
    }
}
