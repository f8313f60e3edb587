//! Clients over HTTP, from this machine only, each with the token.
//!
//! The door is checked from outside in: the address is a loopback one, the request shows the token, then `Host` and
//! `Origin` are this machine's (a web page that rebinds a name must not get in), and only then is anything of the
//! body read. Nothing behind the door may be reached past any of them.

mod patient;
mod sessions;
mod token;
mod unread;
mod vetted;

use std::{
    convert::Infallible,
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::token::{Token, TokenError};
use self::{
    patient::Patient,
    sessions::Sessions,
    unread::Unread,
    vetted::{MAX_BODY_BYTES, UnderWay, Vetting},
};
use crate::{
    broker::Broker,
    config::{Settings, StructuredContent},
    tools::Server,
};

/// Where the protocol is spoken.
pub const PATH: &str = "/mcp";
/// Names the session of the protocol's older revisions.
const SESSION_HEADER: &str = "mcp-session-id";
/// The names of this machine that `Host` may have, with any port: a tunnel may have another one.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The origins that a page may have: those of this machine. Another one's page must not drive the server.
const ORIGINS: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];
/// Connections at a time; further ones wait. Stops whoever only ever connects from using up our descriptors.
const MAX_CONNECTIONS: usize = 256;
/// How long the head of a request may take. Stops connections that say nothing from keeping their places.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes: it is read before the token is known.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How much longer than the longest run a client of an older revision may be silent: its call may also wait for a
/// place, for an image to start, and for its files to be collected.
const SILENCE_MARGIN: Duration = Duration::from_mins(15);
/// How long connections have for their last words once the server stops.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long to wait after the system has refused to accept: it has run out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Body = BoxBody<Bytes, Infallible>;

/// Why a text is no address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddrError {
    /// Not an address with a port.
    #[error("expected an address with a port, such as 127.0.0.1:8080 or [::1]:8080")]
    Syntax,
    /// Others could reach it.
    #[error(
        "{0} can be reached from other machines: belljar listens on loopback only, such as 127.0.0.1:8080. To serve others, put a reverse proxy with TLS in front; OAuth is not there yet"
    )]
    NotLoopback(IpAddr),
}

/// An address that only this machine can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackAddr(SocketAddr);

impl FromStr for LoopbackAddr {
    type Err = AddrError;
    fn from_str(text: &str) -> Result<Self, AddrError> {
        // Names are not looked up: what they lead to can change between the look and the listening.
        let addr: SocketAddr = text.parse().map_err(|_| AddrError::Syntax)?;
        if addr.ip().is_loopback() {
            Ok(Self(addr))
        } else {
            Err(AddrError::NotLoopback(addr.ip()))
        }
    }
}

impl fmt::Display for LoopbackAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An open port on loopback.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Listener {
    /// Listens on `addr`; port 0 takes any that is free.
    pub async fn bind(addr: LoopbackAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(addr.0).await?;
        let addr = listener.local_addr()?;
        Ok(Self { listener, addr })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// What of the settings matters here.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    structured: StructuredContent,
    /// The longest silence of a client of an older revision, which has one during a call.
    silence: Duration,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Self {
        Self {
            structured: settings.structured_content,
            silence: settings.limits.timeout_ceiling.duration() + SILENCE_MARGIN,
        }
    }
}

/// What every connection leads to.
struct Door {
    token: Token,
    mcp: StreamableHttpService<Server, Sessions>,
    under_way: UnderWay,
    unread: Unread,
}

/// Serves whoever shows `token` until `stop` fires.
pub async fn serve(
    broker: Arc<Broker>,
    options: Options,
    listener: Listener,
    token: Token,
    stop: CancellationToken,
) {
    // Made once: a request gets a copy, and not schemas of its own.
    let server = Server::new(broker, token.caller(), options.structured);
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(
            HOSTS
                .map(str::to_owned)
                .into_iter()
                .chain([listener.addr.ip().to_string()]),
        )
        .with_allowed_origins(ORIGINS)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        // An answer that is one message is sent as one: clients bound an event of a stream more tightly than that
        // (Python's at 1 MiB), and a picture or a piece of a file is larger.
        .with_json_response(true)
        .with_cancellation_token(stop.clone());
    let sessions = Arc::new(Sessions::new(options.silence));
    let door = Arc::new(Door {
        token,
        mcp: StreamableHttpService::new(move || Ok(server.clone()), sessions, config),
        under_way: UnderWay::default(),
        unread: Unread::default(),
    });
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = async {
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await;
                listener.listener.accept().await.map(|(stream, _peer)| (stream, place))
            } => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let talk = converse(stream, Arc::clone(&door), stop.clone());
                connections.spawn(async move {
                    talk.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// One connection, to its end or a little past the server's.
async fn converse(stream: TcpStream, door: Arc<Door>, stop: CancellationToken) {
    // Without it small replies wait for acknowledgements of earlier ones.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was lost at once");
        return;
    }
    let patient = Patient::new(stream, door.unread.clone());
    let service = service_fn(move |request| answer(Arc::clone(&door), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(patient), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(GOODBYE, connection).await {
                Ok(ended) => ended,
                Err(_elapsed) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The token first: nothing else of a request is looked at without it.
async fn answer(
    door: Arc<Door>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if !door.token.is_shown_by(request.headers()) {
        return Ok(unauthorized());
    }
    hide_token(request.headers_mut());
    if request.uri().path() != PATH {
        return Ok(refusal(StatusCode::NOT_FOUND, "MCP is spoken at /mcp\n"));
    }
    if request.method() != Method::POST {
        return Ok(door.mcp.handle(request).await);
    }
    let session = request.headers().get(SESSION_HEADER);
    let session = session.and_then(|id| id.to_str().ok()).map(str::to_owned);
    let vetting = Vetting::default();
    let request = vetting.request(request, session, door.under_way.clone());
    let answer = door.mcp.handle(request).await;
    Ok(vetting.answer(answer, &door.unread))
}

/// The headers travel with the request, and a log at its most talkative would show them.
fn hide_token(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
}

fn unauthorized() -> Response<Body> {
    let mut response = refusal(
        StatusCode::UNAUTHORIZED,
        "show the server's token: `Authorization: Bearer …`\n",
    );
    let headers = response.headers_mut();
    headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    // Whoever has no token keeps no place either, and its body is not read.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::from(text).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_on() {
        for good in ["127.0.0.1:0", "127.1.2.3:8080", "[::1]:65535"] {
            assert!(good.parse::<LoopbackAddr>().is_ok(), "{good}");
        }
        for open in [
            "0.0.0.0:80",
            "[::]:80",
            "192.168.0.1:80",
            "128.0.0.1:80",
            "[fe80::1]:80",
            "[::ffff:127.0.0.1]:80",
        ] {
            let error = open.parse::<LoopbackAddr>().unwrap_err();
            assert!(matches!(error, AddrError::NotLoopback(_)), "{open}");
            assert!(error.to_string().contains("reverse proxy with TLS"));
        }
        for bad in [
            "",
            "8080",
            ":8080",
            "127.0.0.1",
            "localhost:80",
            "127.0.0.1:x",
        ] {
            assert_eq!(bad.parse::<LoopbackAddr>(), Err(AddrError::Syntax), "{bad}");
        }
    }

    #[test]
    fn a_client_may_be_silent_for_longer_than_any_run() {
        for text in ["", "[limits.ceiling]\ntimeout_seconds = 86400\n"] {
            let settings = Settings::parse(
                text,
                crate::config::FileOrigin::BuiltIn,
                crate::types::Cpus::from_millis(1000),
            )
            .unwrap();
            let longest = settings.limits.timeout_ceiling.duration();
            assert!(Options::from(&settings).silence > longest + Duration::from_mins(5));
        }
    }
}
