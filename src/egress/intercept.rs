//! TLS, ended here with a certificate of the run's own authority, and the requests inside.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    exchange::{self, Way},
    frames::Frames,
    head::MAX_HEAD_BYTES,
    http,
    ledger::Refused,
    prefixed::Prefixed,
    relay::Shared,
    upstream::UntilStop,
};
use crate::{
    policy::EgressDenial,
    types::{Endpoint, Host},
};

/// How long a program may take for its part of the TLS handshake. Stops one that says nothing.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// The most requests at a time on one HTTP/2 connection. Stops one connection from being thousands.
const MAX_STREAMS: u32 = 64;
/// The HTTP/2 windows of a request and of all requests of one connection: what a program may send before a server
/// takes any.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What is held of the answers of one HTTP/2 stream that the program does not take.
const MAX_SEND_BYTES: usize = 256 * 1024;

/// Serves the TLS connection to `endpoint` that begins in `io`, of which the server name was compared.
pub(super) async fn serve<T>(relay: &Arc<Shared>, endpoint: &Endpoint, io: Prefixed<T>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let config = match relay.authority.server_config(&endpoint.host) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "TLS from inside cannot be ended");
            return;
        }
    };
    let accepted = timeout(HANDSHAKE_PATIENCE, TlsAcceptor::from(config).accept(io)).await;
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // Most often a program that does not trust the run's authority.
            tracing::debug!(%error, host = %endpoint.host, "TLS from inside failed");
            return;
        }
        Err(_) => return,
    };
    let (_, session) = stream.get_ref();
    if !names(session.server_name(), &endpoint.host) {
        let denial = EgressDenial::ServerNameMismatch;
        relay.ledger.denied(Refused::Endpoint(endpoint), denial);
        return;
    }
    let way = Way::Tls(endpoint.clone());
    if session.alpn_protocol() == Some(b"h2") {
        serve_http2(relay, way, stream).await;
    } else {
        http::serve(relay, &way, stream).await;
    }
}

/// Whether the server name of a connection is that of its host. An address is not sent as one (RFC 6066, 3).
fn names(server_name: Option<&str>, host: &Host) -> bool {
    match (server_name, host) {
        (Some(name), Host::Name(_)) => Host::parse(name).is_ok_and(|name| name == *host),
        (None, Host::Ip(_)) => true,
        (None, Host::Name(_)) | (Some(_), Host::Ip(_)) => false,
    }
}

async fn serve_http2<T>(relay: &Arc<Shared>, way: Way, stream: TlsStream<T>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let way = Arc::new(way);
    let frames = Frames::new(stream);
    let flooded = frames.flooded();
    let service = service_fn(|request| {
        let (relay, way) = (Arc::clone(relay), Arc::clone(&way));
        async move { Ok::<_, Infallible>(exchange::answer(&relay, &way, request).await) }
    });
    let ended = http2::Builder::new(UntilStop(relay.stop.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(MAX_SEND_BYTES)
        .serve_connection(TokioIo::new(frames), service)
        .await;
    if flooded.get() {
        let what = way
            .endpoint()
            .map_or(Refused::Unparsed(b""), Refused::Endpoint);
        relay.ledger.denied(what, EgressDenial::TooManyFrames);
    } else if let Err(error) = ended {
        tracing::debug!(%error, "a connection from inside ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_name_is_that_of_the_host_and_none_for_an_address() {
        let name = Host::parse("files.lab.test").unwrap();
        let address = Host::parse("127.0.0.1").unwrap();
        assert!(names(Some("files.lab.test"), &name));
        assert!(names(Some("FILES.lab.test"), &name));
        assert!(!names(Some("other.lab.test"), &name));
        assert!(!names(None, &name));
        assert!(names(None, &address));
        assert!(!names(Some("files.lab.test"), &address));
        assert!(!names(Some("127.0.0.1"), &address));
    }
}
