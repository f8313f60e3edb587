//! Opens a connection to a server: dialled at a vetted address, and under TLS unless the rule says otherwise.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use hyper::{Uri, http::uri::Scheme};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls_pki_types::{DnsName, ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OnceCell,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::ClientConfig};
use tower_service::Service;

use super::{failure, roots};
use crate::{
    egress::{
        dial::{self, DialError, UpstreamFailure},
        meter::Metered,
        relay::Shared,
    },
    policy::EgressDenial,
    types::{Endpoint, Host},
};

/// How long a server may take for its part of the TLS handshake. Stops one that accepts and says nothing.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(15);

/// Opens connections for the client of one relay.
#[derive(Clone)]
pub(super) struct Connector {
    /// Not counted: the relay owns the client.
    relay: Weak<Shared>,
    tls: Arc<OnceCell<Arc<ClientConfig>>>,
}

impl Connector {
    pub(super) fn new(relay: Weak<Shared>) -> Self {
        Self {
            relay,
            tls: Arc::default(),
        }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Wire>, DialError> {
        let relay = self
            .relay
            .upgrade()
            .ok_or(DialError::Denied(EgressDenial::Closed))?;
        let secure = uri.scheme() == Some(&Scheme::HTTPS);
        let endpoint = endpoint(&uri, secure)?;
        let socket = dial::connect(&relay, &endpoint).await?;
        if !secure {
            return Ok(TokioIo::new(Wire::Plain(socket)));
        }
        let config = self
            .tls
            .get_or_try_init(|| roots::client_config(&relay.profile.upstream_ca))
            .await
            .map_err(|error| {
                tracing::warn!(%error, "TLS towards servers cannot be set up");
                DialError::Failed(UpstreamFailure::Tls)
            })?;
        let name = server_name(&endpoint.host)?;
        let handshake = TlsConnector::from(Arc::clone(config)).connect(name, socket);
        match timeout(HANDSHAKE_PATIENCE, handshake).await {
            Ok(Ok(stream)) => Ok(TokioIo::new(Wire::Tls(Box::new(stream)))),
            Ok(Err(error)) => Err(failure::of_handshake(&error)),
            Err(_) => Err(DialError::Failed(UpstreamFailure::Timeout)),
        }
    }
}

/// The endpoint that a URL of our own making names: the very one that it was made of.
fn endpoint(uri: &Uri, secure: bool) -> Result<Endpoint, DialError> {
    let default = if secure { 443 } else { 80 };
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    Endpoint::parse(authority, Some(default))
        .map_err(|error| DialError::Denied(EgressDenial::HostSyntax(error)))
}

/// The name that the server's certificate must be for.
fn server_name(host: &Host) -> Result<ServerName<'static>, DialError> {
    match host {
        Host::Ip(address) => Ok(ServerName::IpAddress((*address).into())),
        Host::Name(name) => DnsName::try_from(name.as_str().to_owned())
            .map(ServerName::DnsName)
            .map_err(|_| DialError::Failed(UpstreamFailure::Tls)),
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Wire>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<TokioIo<Wire>, DialError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(Metered<TcpStream>),
    Tls(Box<TlsStream<Metered<TcpStream>>>),
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        match self {
            Self::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                connected.negotiated_h2()
            }
            _ => connected,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
