//! Plain HTTP/1.1 from inside.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{prefixed::Prefixed, relay::Shared};
use crate::types::Endpoint;

/// Where the requests of a plain connection go.
#[derive(Clone, Debug)]
pub(super) enum PlainTarget {
    /// Each says so itself, in absolute form.
    Proxy,
    /// All to this one.
    Fixed(Endpoint),
}

/// Serves the plain HTTP connection that begins in `io`.
pub(super) async fn serve_plain<T>(shared: &Arc<Shared>, target: PlainTarget, io: Prefixed<T>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let _ = (target, io);
    shared.stop.cancelled().await;
}
