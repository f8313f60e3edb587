//! A connection from inside, from its first byte until it is known what it wants.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::relay::Shared;

/// Serves one connection to its end, which comes at the latest when the run stops.
pub(super) async fn serve<T>(shared: Arc<Shared>, io: T)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    drop(io);
    shared.stop.cancelled().await;
}
