//! From a listener to requests: TLS where there is some, the protocol that was agreed on, and raw answers where the
//! site asks for one.

use std::{convert::Infallible, future, sync::Arc};

use hyper::{
    Request, Response,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    body::Made,
    raw::{self, Raw},
    seen::{Log, Seen},
    site,
};

/// A window of HTTP/2 that one 100 MiB download fills without waiting for the other side at every turn.
const WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// What the requests of one connection have in common.
#[derive(Clone)]
struct Peer {
    log: Arc<Log>,
    server_name: Option<String>,
    secure: bool,
}

/// Accepts until it is dropped; every connection ends with it.
pub(crate) async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, log: Arc<Log>) {
    let mut connections = JoinSet::new();
    loop {
        // Whoever has ended is forgotten, so that a long test does not gather them.
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        log.connected();
        let _ = stream.set_nodelay(true);
        connections.spawn(serve(stream, tls.clone(), Arc::clone(&log)));
    }
}

async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, log: Arc<Log>) {
    let mut peer = Peer {
        log,
        server_name: None,
        secure: tls.is_some(),
    };
    let Some(acceptor) = tls else {
        return http1(stream, peer).await;
    };
    // A handshake that fails is the other side's to report.
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let (_, session) = stream.get_ref();
    peer.server_name = session.server_name().map(ToOwned::to_owned);
    if session.alpn_protocol() == Some(b"h2") {
        http2(stream, peer).await;
    } else {
        http1(stream, peer).await;
    }
}

/// Keeps what came and answers it; where a raw answer is due, asks for it and leaves the rest to whoever has the
/// connection.
async fn respond(
    peer: Peer,
    ask: mpsc::Sender<Raw>,
    request: Request<Incoming>,
) -> Result<Response<Made>, Infallible> {
    let seen = Seen::of(&request, peer.server_name.as_deref(), peer.secure);
    peer.log.requested(seen);
    if let Some(raw) = raw::of(request.uri().path()) {
        let _ = ask.send(raw).await;
        future::pending::<()>().await;
    }
    Ok(site::answer(request).await)
}

async fn http1<T>(stream: T, peer: Peer)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (ask, mut asked) = mpsc::channel::<Raw>(1);
    let service = service_fn(|request| respond(peer.clone(), ask.clone(), request));
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let raw = tokio::select! {
        _ = &mut connection => return,
        raw = asked.recv() => raw,
    };
    let Some(raw) = raw else { return };
    let mut stream = connection.into_parts().io.into_inner();
    if stream.write_all(raw.bytes).await.is_err() || stream.flush().await.is_err() {
        return;
    }
    if raw.stalls {
        let mut thrown_away = [0; 1024];
        while matches!(stream.read(&mut thrown_away).await, Ok(count) if count > 0) {}
    }
    let _ = stream.shutdown().await;
}

/// Over HTTP/2 there are no raw answers: the connection ends in their place, or is silent where they stall.
async fn http2<T>(stream: T, peer: Peer)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (ask, mut asked) = mpsc::channel::<Raw>(1);
    let service = service_fn(|request| respond(peer.clone(), ask.clone(), request));
    let mut connection = http2::Builder::new(TokioExecutor::new());
    connection
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    let broken = async {
        while let Some(raw) = asked.recv().await {
            if !raw.stalls {
                return;
            }
        }
    };
    tokio::select! {
        // How it ends is the other side's to report.
        _ = connection => {}
        () = broken => {}
    }
}
