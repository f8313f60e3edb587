//! A relay with a program inside and a server outside, all in this process, over loopback.

mod server;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    client::conn::{http1, http2},
    http::{request, response},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring},
};

pub(in crate::egress) use server::{Identity, Server};

use crate::{
    config::{Budget, CallerKind, HostPattern, Profile, Rule, SecretSpec, Uninspectable},
    egress::{Decided, Relay, Unrecorded, Vault, Witness, upstream::Upstream},
    types::{Host, ProfileName},
};

/// The name of the server outside.
pub(in crate::egress) const HOST: &str = "files.lab.test";
/// The most that a test reads of one connection.
const MAX_READ: u64 = 1024 * 1024;

/// Remembers what was decided.
#[derive(Debug, Default)]
pub(in crate::egress) struct Recorder {
    seen: Mutex<Vec<Decided>>,
    full: AtomicBool,
}

impl Witness for Recorder {
    fn saw(&self, decided: &Decided) -> Result<(), Unrecorded> {
        if self.full.load(Ordering::SeqCst) {
            return Err(Unrecorded);
        }
        self.seen.lock().unwrap().push(decided.clone());
        Ok(())
    }
}

/// A relay, and what it reaches.
pub(in crate::egress) struct Lab {
    pub(in crate::egress) relay: Arc<Relay>,
    pub(in crate::egress) server: Server,
    recorder: Arc<Recorder>,
}

impl Lab {
    /// A server that all is right with, and a profile that allows it.
    pub(in crate::egress) async fn new() -> Self {
        Self::with(Identity::Right, |_| {}).await
    }

    /// A lab whose profile was changed before the relay was opened.
    pub(in crate::egress) async fn with(
        identity: Identity,
        change: impl FnOnce(&mut Profile),
    ) -> Self {
        let server = Server::start(identity).await;
        let mut profile = profile(&server);
        change(&mut profile);
        let recorder = Arc::new(Recorder::default());
        let witness = Arc::clone(&recorder) as Arc<dyn Witness>;
        let profile = Arc::new(profile);
        let vault = Vault::open(&profile).await.unwrap();
        let relay = Relay::new(profile, vault, witness);
        Self {
            relay: Arc::new(relay),
            server,
            recorder,
        }
    }

    /// `host:port` of the server.
    pub(in crate::egress) fn authority(&self) -> String {
        format!("{HOST}:{}", self.server.port)
    }

    /// A connection from inside.
    pub(in crate::egress) fn connect(&self) -> DuplexStream {
        let (inside, outside) = tokio::io::duplex(64 * 1024);
        let relay = Arc::clone(&self.relay);
        tokio::spawn(async move { relay.serve(outside).await });
        inside
    }

    /// Has servers given up at once, before they could ever answer.
    pub(in crate::egress) fn impatient(&self) {
        let shared = &self.relay.shared;
        let upstream = Upstream::with_patience(shared, std::time::Duration::ZERO);
        shared.upstream.set(upstream).unwrap();
    }

    /// From now on nothing can be recorded.
    pub(in crate::egress) fn fill_record(&self) {
        self.recorder.full.store(true, Ordering::SeqCst);
    }

    /// TLS through `CONNECT`, of which the program trusts the run's authority alone.
    pub(in crate::egress) async fn tls(&self, alpn: &[&[u8]]) -> TlsStream<DuplexStream> {
        self.tls_to(HOST, alpn).await
    }

    /// TLS through `CONNECT` to another host.
    pub(in crate::egress) async fn tls_to(
        &self,
        host: &'static str,
        alpn: &[&[u8]],
    ) -> TlsStream<DuplexStream> {
        let mut stream = self.connect();
        let authority = format!("{host}:{}", self.server.port);
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.relay.trust()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from(host).unwrap(), stream)
            .await
            .unwrap()
    }

    pub(in crate::egress) async fn http1(&self) -> http1::SendRequest<Full<Bytes>> {
        let stream = self.tls(&[b"http/1.1"]).await;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    pub(in crate::egress) async fn http2(&self) -> http2::SendRequest<Full<Bytes>> {
        let stream = self.tls(&[b"h2"]).await;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Everything that comes for these bytes under TLS.
    pub(in crate::egress) async fn raw(&self, bytes: &str) -> String {
        let mut stream = self.tls(&[b"http/1.1"]).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        read_all(stream).await
    }

    /// Everything that comes for these bytes in the clear.
    pub(in crate::egress) async fn raw_plain(&self, bytes: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        read_all(stream).await
    }

    /// A request of HTTP/1.1.
    pub(in crate::egress) fn get(&self, path: &str) -> request::Builder {
        Request::get(path).header("host", self.authority())
    }

    /// A request of HTTP/2.
    pub(in crate::egress) fn get2(&self, path: &str) -> request::Builder {
        Request::get(format!("https://{}{path}", self.authority()))
    }

    /// What was recorded, one line each.
    pub(in crate::egress) fn record(&self) -> Vec<String> {
        let line = |decided: &Decided| {
            let verdict = match decided.verdict {
                Ok(()) => "allowed",
                Err(denial) => denial.reason(),
            };
            format!(
                "{} {} {verdict}",
                decided.method.as_deref().unwrap_or("-"),
                decided.target.as_deref().unwrap_or("-"),
            )
        };
        self.recorder
            .seen
            .lock()
            .unwrap()
            .iter()
            .filter(|decided| !is_dial(decided))
            .map(line)
            .collect()
    }

    /// The addresses that were recorded before they were dialled.
    pub(in crate::egress) fn dialled(&self) -> Vec<String> {
        let seen = self.recorder.seen.lock().unwrap();
        let dials = seen.iter().filter(|decided| is_dial(decided));
        dials
            .map(|decided| format!("{} {}", decided.host, decided.address.unwrap()))
            .collect()
    }
}

/// Whether it is about the address of a server alone.
fn is_dial(decided: &Decided) -> bool {
    decided.method.is_none() && decided.address.is_some()
}

/// A profile that allows the server and nothing else.
fn profile(server: &Server) -> Profile {
    let host = Host::parse(HOST).unwrap();
    let Host::Name(name) = host.clone() else {
        panic!("a name")
    };
    Profile {
        name: ProfileName::parse("lab").unwrap(),
        rules: vec![Rule {
            scheme: server.scheme(),
            hosts: HostPattern::Exactly(host),
            port: server.port,
            methods: None,
            paths: None,
            tunnel: false,
        }],
        secrets: Vec::<Arc<SecretSpec>>::new(),
        resolve: [(name, vec!["127.0.0.1".parse().unwrap()])].into(),
        allow_private: vec!["127.0.0.1/32".parse().unwrap()],
        upstream_ca: server.trusted.clone(),
        uninspectable: Uninspectable::Block,
        budget: Budget {
            requests: 1000,
            connections: 64,
            sent_bytes: 1 << 30,
            received_bytes: 1 << 30,
            duration: std::time::Duration::from_mins(10),
        },
        callers: vec![CallerKind::Local],
    }
}

/// A request without a body.
pub(in crate::egress) fn empty(builder: request::Builder) -> Request<Full<Bytes>> {
    builder.body(Full::default()).unwrap()
}

/// An answer with its whole body.
pub(in crate::egress) async fn whole(
    answer: hyper::Result<Response<hyper::body::Incoming>>,
) -> (response::Parts, String) {
    let (head, body) = answer.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head, String::from_utf8_lossy(&body).into_owned())
}

/// The reason in an answer of the relay's own.
pub(in crate::egress) fn reason(body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    body["reason"].as_str().unwrap().to_owned()
}

/// Reads to the end of a head, byte by byte, so that nothing behind it is taken.
pub(in crate::egress) async fn read_head<T: tokio::io::AsyncRead + Unpin>(
    stream: &mut T,
) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn read_all<T: tokio::io::AsyncRead + Unpin>(stream: T) -> String {
    let mut text = String::new();
    stream
        .take(MAX_READ)
        .read_to_string(&mut text)
        .await
        .unwrap();
    text
}
