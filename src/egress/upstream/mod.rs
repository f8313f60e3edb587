//! Sends a request on: over a connection that was dialled and verified for its host, or one of those kept from before.
//!
//! A relay has a client of its own, so that no connection, TLS session or idle socket is shared between runs, and
//! connections are kept by scheme, host and port, so that none serves another host. It never follows a redirect, never
//! speaks to an address that was not vetted, and never to a server whose certificate it could not verify.

mod body;
mod connect;
mod failure;
mod roots;

use std::{fmt, sync::Arc, time::Duration};

use hyper::{Request, Response, Uri, body::Incoming, http::uri::Scheme as UriScheme, rt::Executor};
use hyper_util::{client::legacy::Client, rt::TokioTimer};
use tokio_util::sync::CancellationToken;

pub(super) use body::RequestBody;
use connect::Connector;

use super::{
    dial::{DialError, UpstreamFailure},
    relay::Shared,
};
use crate::{config::Scheme, types::Endpoint};

/// How long a server may take to begin its answer, from the last piece of the request on. Stops a server that never
/// answers from holding a connection of the run for ever.
const RESPONSE_PATIENCE: Duration = Duration::from_mins(1);
/// How long a connection is kept without a request: less than a request waits for a place among the connections.
const IDLE: Duration = Duration::from_secs(10);
/// The most connections that are kept without a request, for each host.
const MAX_IDLE_PER_HOST: usize = 8;
/// The most bytes that the head of an answer may have. Stops a server from filling the memory before its answer can
/// be looked at.
const MAX_RESPONSE_HEAD_BYTES: usize = 64 * 1024;
/// The most headers that an answer may have.
const MAX_RESPONSE_HEADERS: usize = 128;
/// The HTTP/2 windows of an answer and of all answers of one connection: what a server may send before the program
/// takes any.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// The client of one relay.
pub(super) struct Upstream {
    client: Client<Connector, RequestBody>,
    patience: Duration,
}

impl Upstream {
    /// A client that dials as the profile of `relay` says and ends with it.
    pub(super) fn new(relay: &Arc<Shared>) -> Self {
        Self::with_patience(relay, RESPONSE_PATIENCE)
    }

    pub(super) fn with_patience(relay: &Arc<Shared>, patience: Duration) -> Self {
        let client = Client::builder(UntilStop(relay.stop.clone()))
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
            .http1_max_buf_size(MAX_RESPONSE_HEAD_BYTES)
            .http1_max_headers(MAX_RESPONSE_HEADERS)
            .http2_max_header_list_size(u32::try_from(MAX_RESPONSE_HEAD_BYTES).unwrap_or(u32::MAX))
            .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
            .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .build(Connector::new(Arc::downgrade(relay)));
        Self { client, patience }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// [`DialError`]: nothing of an answer came. Whatever was sent of the request may have taken effect.
    pub(super) async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, DialError> {
        let progress = request.body().progress();
        tokio::select! {
            answer = self.client.request(request) => answer.map_err(|error| failure::of(&error)),
            () = progress.stalled_for(self.patience) => Err(DialError::Failed(UpstreamFailure::Timeout)),
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").finish_non_exhaustive()
    }
}

/// The URL that a request goes to, made of what was decided and of nothing else. None where `target` is no path.
pub(super) fn uri(scheme: Scheme, endpoint: &Endpoint, target: &str) -> Option<Uri> {
    let (scheme, default_port) = match scheme {
        Scheme::Https => (UriScheme::HTTPS, 443),
        Scheme::Http => (UriScheme::HTTP, 80),
    };
    // What a server is called in `Host` and `:authority` has no port where it is the usual one.
    let authority = if endpoint.port == default_port {
        endpoint.host.to_string()
    } else {
        endpoint.to_string()
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(authority)
        .path_and_query(target)
        .build()
        .ok()?;
    // Not `*`, and nothing that was read as something else than what was decided.
    let same = uri.path_and_query().is_some_and(|said| said == target);
    (same && target.starts_with('/')).then_some(uri)
}

/// Runs what belongs to a relay, until it ends: no connection outlives its run.
#[derive(Clone, Debug)]
pub(super) struct UntilStop(pub(super) CancellationToken);

impl<F> Executor<F> for UntilStop
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(self.0.clone().run_until_cancelled_owned(task));
    }
}
