//! How much of the server one run may take at a time. Each is held by whoever uses it, and free again when that is dropped.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::policy::EgressDenial;

/// The most requests of one run at a time, on all of its connections together; more wait for their turn. Each has a
/// connection outside and buffers here. Stops streams of HTTP/2 whose answers nobody reads from taking this server's
/// memory and descriptors.
pub(super) const MAX_REQUESTS_AT_ONCE: usize = 32;
/// The most connections of one run to the outside, those among them that are kept for a next request; more wait. Stops a
/// program that speaks to ever other names from taking the server's descriptors from everyone.
const MAX_SOCKETS: usize = 64;

/// The places of one run.
#[derive(Debug)]
pub(in crate::egress) struct Places {
    connections: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    sockets: Arc<Semaphore>,
}

/// The place of one connection from inside.
#[derive(Debug)]
pub(in crate::egress) struct Place(
    #[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit,
);

/// The turn of one request, to be kept until its answer ends.
#[derive(Debug)]
pub(in crate::egress) struct Turn(
    #[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit,
);

/// The place of one connection to the outside.
#[derive(Debug)]
pub(in crate::egress) struct Socket(
    #[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit,
);

impl Places {
    /// With so many connections from inside.
    pub(super) fn new(connections: u32) -> Self {
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        Self {
            connections: Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))),
            turns: Arc::new(Semaphore::new(MAX_REQUESTS_AT_ONCE)),
            sockets: Arc::new(Semaphore::new(MAX_SOCKETS)),
        }
    }

    /// A place for one more connection from inside, if there is one.
    pub(super) fn connection(&self) -> Option<Place> {
        Arc::clone(&self.connections)
            .try_acquire_owned()
            .ok()
            .map(Place)
    }

    /// Waits until fewer than [`MAX_REQUESTS_AT_ONCE`] requests are on their way.
    ///
    /// # Errors
    /// [`EgressDenial::Closed`].
    pub(in crate::egress) async fn turn(&self) -> Result<Turn, EgressDenial> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.map(Turn).map_err(|_| EgressDenial::Closed)
    }

    /// Waits until fewer than [`MAX_SOCKETS`] connections to the outside are open.
    ///
    /// # Errors
    /// [`EgressDenial::Closed`].
    pub(in crate::egress) async fn socket(&self) -> Result<Socket, EgressDenial> {
        let socket = Arc::clone(&self.sockets).acquire_owned().await;
        socket.map(Socket).map_err(|_| EgressDenial::Closed)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn no_run_has_more_connections_outside_than_it_may_and_they_come_back() {
        let places = Places::new(1);
        let mut held: Vec<_> = (0..MAX_SOCKETS)
            .map(|_| places.socket().now_or_never().unwrap().unwrap())
            .collect();
        assert!(places.socket().now_or_never().is_none());
        held.pop();
        assert!(places.socket().now_or_never().is_some());
    }
}
