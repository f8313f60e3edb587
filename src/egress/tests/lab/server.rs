//! The server outside: HTTP/1.1 and HTTP/2, under TLS with an authority of its own or in the clear.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    header::AUTHORIZATION,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Notify,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring},
};

use crate::{config::Scheme, types::clock};

type SiteBody = UnsyncBoxBody<Bytes, io::Error>;

/// What a server shows of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::egress) enum Identity {
    /// A valid certificate.
    Right,
    /// One that has run out.
    Expired,
    /// One for another name.
    OtherName,
    /// One that nobody who is trusted signed.
    Unknown,
    /// TLS with HTTP/1.1 alone.
    OldFashioned,
    /// No TLS.
    Plain,
}

/// What a test and the server tell each other.
#[derive(Default)]
struct Signals {
    /// A request came that will never be answered.
    asked: Notify,
    /// An answer is to be cut off.
    cut: Notify,
}

/// A server on loopback.
pub(in crate::egress) struct Server {
    pub(in crate::egress) port: u16,
    /// Whom a profile has to trust for it.
    pub(in crate::egress) trusted: Vec<CertificateDer<'static>>,
    identity: Identity,
    /// How many connections it had.
    connections: Arc<AtomicUsize>,
    signals: Arc<Signals>,
    accepting: JoinHandle<()>,
}

impl Server {
    pub(in crate::egress) async fn start(identity: Identity) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (trusted, tls) = certified(identity);
        let tls = (identity != Identity::Plain).then(|| TlsAcceptor::from(tls));
        let count = Arc::clone(&connections);
        let signals = Arc::new(Signals::default());
        let told = Arc::clone(&signals);
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (tls, told) = (tls.clone(), Arc::clone(&told));
                tokio::spawn(async move {
                    let Some(tls) = tls else {
                        return serve(socket, false, told).await;
                    };
                    if let Ok(stream) = tls.accept(socket).await {
                        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                        serve(stream, http2, told).await;
                    }
                });
            }
        });
        Self {
            port,
            trusted,
            identity,
            connections,
            signals,
            accepting,
        }
    }

    /// Waits for a request that will never be answered.
    pub(in crate::egress) async fn asked(&self) {
        self.signals.asked.notified().await;
    }

    /// Cuts an answer off.
    pub(in crate::egress) fn cut(&self) {
        self.signals.cut.notify_one();
    }

    /// Stops listening.
    pub(in crate::egress) async fn stop(&mut self) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
    }

    pub(in crate::egress) fn scheme(&self) -> Scheme {
        match self.identity {
            Identity::Plain => Scheme::Http,
            _ => Scheme::Https,
        }
    }

    pub(in crate::egress) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The authority to be trusted, and how TLS is served.
fn certified(identity: Identity) -> (Vec<CertificateDer<'static>>, Arc<ServerConfig>) {
    let authority = || {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "lab");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        (certificate, Issuer::new(params, key))
    };
    let (trusted, issuer) = authority();
    let issuer = if identity == Identity::Unknown {
        authority().1
    } else {
        issuer
    };
    let name = if identity == Identity::OtherName {
        "other.lab.test"
    } else {
        super::HOST
    };
    let mut params = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    if identity == Identity::Expired {
        let day = Duration::from_hours(24);
        params.not_before = (clock::file_clock() - 3 * day).into();
        params.not_after = (clock::file_clock() - day).into();
    }
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.into()], key)
        .unwrap();
    config.alpn_protocols = if identity == Identity::OldFashioned {
        vec![b"http/1.1".to_vec()]
    } else {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    };
    (vec![trusted.into()], Arc::new(config))
}

async fn serve<T>(stream: T, http2: bool, signals: Arc<Signals>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(stream);
    let service = service_fn(|request| {
        let signals = Arc::clone(&signals);
        async move { Ok::<_, Infallible>(site(request, &signals).await) }
    });
    // A relay that cuts a connection is no failure of the server's.
    let _ = if http2 {
        http2::Builder::new(TokioExecutor::new())
            .serve_connection(io, service)
            .await
    } else {
        http1::Builder::new().serve_connection(io, service).await
    };
}

/// What the server answers.
async fn site(request: Request<Incoming>, signals: &Arc<Signals>) -> Response<SiteBody> {
    let path = request.uri().path().to_owned();
    let credentials = request
        .headers()
        .get(AUTHORIZATION)
        .map_or(String::new(), |value| value.to_str().unwrap().to_owned());
    match path.as_str() {
        "/hello" => text("hello"),
        "/echo" => text(&echo(request).await),
        "/redirect" => {
            let mut answer = text("");
            *answer.status_mut() = hyper::StatusCode::FOUND;
            set(&mut answer, "location", "https://elsewhere.lab.test/");
            answer
        }
        "/switch" => {
            let mut answer = text("");
            *answer.status_mut() = hyper::StatusCode::SWITCHING_PROTOCOLS;
            answer
        }
        "/gzip" => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(b"compressed words").unwrap();
            let mut answer = Response::new(full(gzip.finish().unwrap()));
            set(&mut answer, "content-encoding", "gzip");
            answer
        }
        "/hops" => {
            let mut answer = text("hops");
            set(&mut answer, "alt-svc", "h3=\":443\"");
            set(&mut answer, "proxy-authenticate", "Basic");
            set(&mut answer, "x-kept", "1");
            answer
        }
        "/endless" => streamed(stream::repeat(Bytes::from_static(&[b'x'; 16 * 1024])).map(Ok)),
        "/cut" => {
            let signals = Arc::clone(signals);
            let half = stream::iter([Ok(Bytes::from_static(b"half"))]);
            let end = stream::once(async move {
                signals.cut.notified().await;
                Err(io::Error::other("cut"))
            });
            let mut answer = streamed(half.chain(end));
            set(&mut answer, "content-length", "8");
            answer
        }
        "/never" => {
            signals.asked.notify_one();
            std::future::pending().await
        }
        "/length" => text(&credentials.len().to_string()),
        "/raw" => text(&credentials),
        "/no-content" => {
            let mut answer = text(&credentials);
            *answer.status_mut() = hyper::StatusCode::NO_CONTENT;
            answer
        }
        "/base64" => text(&format!(
            "x{}",
            BASE64_STANDARD.encode(format!("ab{credentials}"))
        )),
        "/percent" => text(
            &credentials
                .bytes()
                .map(|b| format!("%{b:02X}"))
                .collect::<String>(),
        ),
        "/json" => text(
            &credentials
                .bytes()
                .map(|b| format!("\\u{b:04x}"))
                .collect::<String>(),
        ),
        "/header" => {
            let mut answer = text("see the headers");
            set(&mut answer, "x-echo", &credentials);
            answer
        }
        "/gzipped-echo" => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(credentials.as_bytes()).unwrap();
            let mut answer = Response::new(full(gzip.finish().unwrap()));
            set(&mut answer, "content-encoding", "gzip");
            answer
        }
        "/brotli" => {
            let mut answer = text("not searched");
            set(&mut answer, "content-encoding", "br");
            answer
        }
        _ => {
            let mut answer = text("no such page");
            *answer.status_mut() = hyper::StatusCode::NOT_FOUND;
            answer
        }
    }
}

/// The request as it arrived.
async fn echo(request: Request<Incoming>) -> String {
    use std::fmt::Write as _;
    let (head, body) = request.into_parts();
    let mut text = format!("{} {:?}\n", head.method, head.version);
    if let Some(authority) = head.uri.authority() {
        let _ = writeln!(text, ":authority: {authority}");
    }
    for (name, value) in &head.headers {
        let _ = writeln!(text, "{name}: {}", value.to_str().unwrap());
    }
    let body = body.collect().await.unwrap().to_bytes();
    let _ = write!(text, "\n{}", String::from_utf8_lossy(&body));
    text
}

fn set(answer: &mut Response<SiteBody>, name: &'static str, value: &str) {
    answer.headers_mut().insert(name, value.parse().unwrap());
}

fn text(words: &str) -> Response<SiteBody> {
    Response::new(full(words.to_owned()))
}

fn full(bytes: impl Into<Bytes>) -> SiteBody {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn streamed(
    pieces: impl stream::Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Response<SiteBody> {
    Response::new(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync())
}
