//! The servers that the tests, the benchmark and the examples reach through the egress proxy: on loopback, in this
//! process, with a certificate authority of their own.
//!
//! An [`Upstream`] speaks HTTP/1.1 and HTTP/2 under TLS and HTTP/1.1 in the clear, behaves or misbehaves as the path
//! says ([`site`]), and keeps what it saw, so that a test can assert that nothing arrived. [`TcpEcho`] and [`UdpSink`]
//! are for protocols that no profile allows. Nothing here listens on anything but 127.0.0.1, and everything ends when
//! its owner is dropped. Never part of what is shipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod authority;
mod body;
mod connection;
mod echo;
mod other;
mod raw;
mod seen;
mod site;

#[cfg(test)]
mod tests;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

pub use authority::{Authority, Certificate};
pub use body::huge_byte;
pub use other::{TcpEcho, UdpSink};
pub use seen::{MAX_SEEN, Seen};

use seen::Log;

/// What an [`Upstream`] is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The names and addresses that its certificate is for.
    pub names: Vec<String>,
    /// What is wrong with its certificate, if anything.
    pub certificate: Certificate,
    /// Which protocols it offers under TLS.
    pub protocols: Protocols,
    /// Who signs its certificate; absent: an authority of its own.
    pub authority: Option<Arc<Authority>>,
}

impl Default for Options {
    /// A good certificate for `localhost` and 127.0.0.1, both protocols.
    fn default() -> Self {
        Self::named(&["localhost", "127.0.0.1"])
    }
}

impl Options {
    /// A good certificate for these names, both protocols.
    #[must_use]
    pub fn named(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(ToString::to_string).collect(),
            certificate: Certificate::Valid,
            protocols: Protocols::Both,
            authority: None,
        }
    }
}

/// Which protocols are offered under TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/2 first, HTTP/1.1 for whoever does not ask for it.
    Both,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone.
    Http2,
}

impl Protocols {
    fn alpn(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Self::Both => &[b"h2", b"http/1.1"],
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// A running server. Dropping it ends every connection.
#[derive(Debug)]
pub struct Upstream {
    authority: Arc<Authority>,
    tls: SocketAddr,
    plain: SocketAddr,
    log: Arc<Log>,
    _tasks: JoinSet<()>,
}

impl Upstream {
    /// Starts a server on ports that the system chooses.
    ///
    /// # Panics
    /// Where there is no port to be had, or a name in `options` is none.
    pub async fn start(options: Options) -> Self {
        let authority = options
            .authority
            .unwrap_or_else(|| Arc::new(Authority::new()));
        let config = authority.server_config(
            &options.names,
            options.certificate,
            options.protocols.alpn(),
        );
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let log = Arc::new(Log::default());
        let (tls_listener, tls) = listen().await;
        let (plain_listener, plain) = listen().await;
        let mut tasks = JoinSet::new();
        tasks.spawn(connection::accept(
            tls_listener,
            Some(acceptor),
            Arc::clone(&log),
        ));
        tasks.spawn(connection::accept(plain_listener, None, Arc::clone(&log)));
        Self {
            authority,
            tls,
            plain,
            log,
            _tasks: tasks,
        }
    }

    /// Where it speaks TLS.
    #[must_use]
    pub fn tls(&self) -> SocketAddr {
        self.tls
    }

    /// Where it speaks HTTP in the clear.
    #[must_use]
    pub fn plain(&self) -> SocketAddr {
        self.plain
    }

    /// The certificate of its authority, as PEM. It is no help where the certificate is [`Certificate::SelfSigned`].
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The requests that it got, oldest first; at most [`MAX_SEEN`].
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.log.requests()
    }

    /// How many connections were opened to it, before anything was said on them.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.log.connections()
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}
