//! The sessions of the protocol's older revisions, of which there are only so many.
//!
//! They are not the sessions of `open_session`: those belong to the caller and outlive these.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
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

/// Clients of older revisions at a time. Each costs a task and buffers until it says goodbye or falls silent:
/// stops a client that only ever says hello from filling the memory. Beyond it the one that has been silent longest goes:
/// such a client keeps nobody out either.
const MAX_SESSIONS: usize = 256;

/// Why there is no such session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    /// There are too many, and all of them wait for something.
    #[error("{MAX_SESSIONS} clients are connected: no more are taken")]
    Full,
    /// What the SDK says.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// The SDK's sessions, bounded.
pub(super) struct Sessions {
    local: LocalSessionManager,
    uses: Uses,
    /// Held while one is made, so that there are never more than may be.
    making: tokio::sync::Mutex<()>,
}

/// When each session was last heard of, and on how many streams its client waits.
#[derive(Clone, Default)]
struct Uses(Arc<Mutex<HashMap<SessionId, Use>>>);

#[derive(Clone, Copy)]
struct Use {
    last: Instant,
    streams: usize,
}

impl Uses {
    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, Use>> {
        // Nothing that can panic happens under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heard(&self, id: &SessionId) {
        if let Some(known) = self.map().get_mut(id) {
            known.last = Instant::now();
        }
    }

    /// The one that has been silent longest, of those on which nobody waits.
    fn most_silent(&self) -> Option<SessionId> {
        let map = self.map();
        let idle = map.iter().filter(|(_, known)| known.streams == 0);
        let silent = idle.min_by_key(|(_, known)| known.last);
        silent.map(|(id, _)| id.clone())
    }

    /// A stream of this session's.
    fn waiting<S>(&self, id: &SessionId, stream: S) -> Waiting<S> {
        if let Some(known) = self.map().get_mut(id) {
            known.streams += 1;
        }
        Waiting {
            stream: Box::pin(stream),
            uses: self.clone(),
            id: id.clone(),
        }
    }
}

/// A stream on which a client waits.
struct Waiting<S> {
    stream: Pin<Box<S>>,
    uses: Uses,
    id: SessionId,
}

impl<S: Stream> Stream for Waiting<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(context)
    }
}

impl<S> Drop for Waiting<S> {
    fn drop(&mut self) {
        if let Some(known) = self.uses.map().get_mut(&self.id) {
            known.last = Instant::now();
            known.streams -= 1;
        }
    }
}

impl Sessions {
    /// Sessions that end after `idle` without a word from their clients.
    pub(super) fn new(idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        Self {
            local,
            uses: Uses::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    async fn count(&self) -> usize {
        self.local.sessions.read().await.len()
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        let _one_at_a_time = self.making.lock().await;
        while self.count().await >= MAX_SESSIONS {
            let silent = self.uses.most_silent().ok_or(SessionsError::Full)?;
            tracing::debug!("a client that is silent makes room for another");
            self.close_session(&silent).await?;
        }
        let (id, transport) = self.local.create_session().await?;
        let new = Use {
            last: Instant::now(),
            streams: 0,
        };
        self.uses.map().insert(id.clone(), new);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        self.uses.heard(id);
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.uses.map().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let stream = self.local.create_stream(id, message).await?;
        Ok(self.uses.waiting(id, stream))
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
        let stream = self.local.create_standalone_stream(id).await?;
        Ok(self.uses.waiting(id, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let stream = self.local.resume(id, last_event_id).await?;
        Ok(self.uses.waiting(id, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_are_only_so_many_and_the_most_silent_one_makes_room() {
        let sessions = Sessions::new(Duration::from_mins(1));
        let mut open = Vec::new();
        for _ in 0..MAX_SESSIONS {
            open.push(sessions.create_session().await.unwrap());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        // The first is heard of again, and somebody waits on the second.
        assert!(sessions.has_session(&open[0].0).await.unwrap());
        let waiting = sessions
            .uses
            .waiting(&open[1].0, futures_util::stream::pending::<()>());
        open.push(sessions.create_session().await.unwrap());
        assert_eq!(sessions.count().await, MAX_SESSIONS);
        for (at, is_there) in [(0, true), (1, true), (2, false), (3, true)] {
            let found = sessions.local.has_session(&open[at].0).await.unwrap();
            assert_eq!(found, is_there, "{at}");
        }
        drop(waiting);
        // Nobody goes on whom somebody waits.
        let ids: Vec<SessionId> = sessions.uses.map().keys().cloned().collect();
        let all: Vec<_> = ids
            .iter()
            .map(|id| {
                sessions
                    .uses
                    .waiting(id, futures_util::stream::pending::<()>())
            })
            .collect();
        assert!(matches!(
            sessions.create_session().await,
            Err(SessionsError::Full)
        ));
        drop(all);
        assert!(sessions.create_session().await.is_ok());
        assert_eq!(sessions.count().await, MAX_SESSIONS);
    }
}
