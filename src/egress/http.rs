//! HTTP/1.1 from inside: each head is vetted before the server of HTTP sees it, each request is decided by itself.
//!
//! Speaks no HTTP/2 in the clear, and lets no connection become another protocol.

use std::{convert::Infallible, future::poll_fn, sync::Arc, time::Duration};

use hyper::{
    Response,
    header::{CONNECTION, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::{
    exchange::{self, AnswerBody, Way},
    head::{self, Guard},
    prefixed::Prefixed,
    relay::Shared,
    reply::Reply,
};
use crate::types::Endpoint;

/// How long the head of the next request may take, from the end of the last answer on. Stops connections that say
/// nothing from being held for as long as one may last.
const HEAD_PATIENCE: Duration = Duration::from_mins(1);
/// What the server of HTTP holds of a connection: a vetted head, and as much again of the body behind it.
const MAX_BUFFER_BYTES: usize = 2 * head::MAX_HEAD_BYTES;

/// Where the requests of a plain connection go.
#[derive(Clone, Debug)]
pub(super) enum PlainTarget {
    /// Each says so itself, in absolute form.
    Proxy,
    /// All to this one.
    Fixed(Endpoint),
}

/// Serves the plain HTTP connection that begins in `io`.
pub(super) async fn serve_plain<T>(relay: &Arc<Shared>, target: PlainTarget, io: Prefixed<T>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let way = match target {
        PlainTarget::Proxy => Way::Proxy,
        PlainTarget::Fixed(endpoint) => Way::Plain(endpoint),
    };
    serve(relay, &way, io).await;
}

/// Serves the requests of one connection, one after the other.
pub(super) async fn serve<T>(relay: &Arc<Shared>, way: &Way, io: T)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let guard = Guard::new(io);
    let verdict = guard.verdict();
    let service = service_fn(|request| {
        // What follows a chunked body is not vetted.
        let last = verdict.must_close();
        Box::pin(async move {
            let mut answer = exchange::answer(relay, way, request).await;
            if last {
                close_after(&mut answer);
            }
            Ok::<_, Infallible>(answer)
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_headers(head::MAX_HEADERS)
        .max_buf_size(MAX_BUFFER_BYTES)
        // Nothing is read beyond a request until it is answered: the next head is vetted in its own time, and a
        // program that has said all it has to say still gets its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(guard), service);
    // Without a shutdown: there may be something left to say.
    let ended = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    let refusal = verdict.refusal();
    if let (Err(error), None) = (ended, refusal) {
        // An answer may have been cut off: without a proper end nobody takes it for whole.
        tracing::debug!(%error, "a connection from inside ended");
        return;
    }
    let guard = connection.into_parts().io.into_inner();
    let denial = refusal.map(|denial| {
        let refused = way.refused(guard.refused_line());
        relay.ledger.denied(refused, denial)
    });
    let mut io = guard.into_inner();
    // The program may be gone, and is owed nothing more: what cannot be written is left.
    if let Some(denial) = denial {
        let reply = Reply::denied(denial, way.endpoint()).raw();
        let _ = io.write_all(&reply).await;
    }
    let _ = io.shutdown().await;
}

fn close_after(answer: &mut Response<AnswerBody>) {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
}
