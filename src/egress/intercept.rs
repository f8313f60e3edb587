//! TLS, ended here with a certificate of the run's own authority, and the requests inside.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{prefixed::Prefixed, relay::Shared};
use crate::types::Endpoint;

/// Serves the TLS connection to `endpoint` that begins in `io`, of which the server name was compared.
pub(super) async fn serve<T>(shared: &Arc<Shared>, endpoint: &Endpoint, io: Prefixed<T>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let _ = (endpoint, io);
    shared.stop.cancelled().await;
}
