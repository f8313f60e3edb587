//! The way out of a sandbox, from the outside: the connections that its programs make, as bytes.
//!
//! What they want is somebody else's to read and to decide; here they are only counted and carried. A
//! guest that opens one while no [`Door`] is there, or more at a time than [`MAX_TUNNELS`], has broken
//! the protocol: the multiplexer ends the connection then (`wire/src/mux/gate.rs`).

use std::io;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::task::{Context, Poll};

use belljar_wire::limits::MAX_TUNNELS;
use belljar_wire::message::{EgressSpec, FromEgress, Request, TRUST_FILE, ToEgress};
use belljar_wire::mux::{Incoming, Tunnel};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Exchange, Link, Tether, TetherError, Violation, received, sent};

// What an operator may set is what there is.
const _: () = assert!(MAX_TUNNELS == crate::config::MAX_CONNECTIONS as usize);

impl Tether {
    /// Opens the way out: programs can connect to [`Door::proxy`] until the door is dropped. `trust` are certificates,
    /// as PEM, that they have to trust beside those of the image. One door at a time; connections of the one before
    /// should be dropped first, since they count towards what the multiplexer bears.
    ///
    /// # Errors
    /// [`TetherError::TooManyRequests`] while there is a door, [`TetherError::TooLarge`] if `trust` is,
    /// [`TetherError::Guest`] if the guest cannot listen or write the file of certificates, [`TetherError::Lost`] or
    /// [`TetherError::Violation`].
    pub async fn open_egress(&self, trust: Vec<u8>) -> Result<Door, TetherError> {
        // Before it is asked for: a program may connect before the answer is here.
        let incoming = self.gate.open().ok_or(TetherError::TooManyRequests)?;
        let opened = self.ask_for_egress(EgressSpec { trust }).await;
        let (exchange, port) = opened.map_err(|error| self.link.judge(error))?;
        let closing = CancellationToken::new();
        let closed = CancellationToken::new();
        let (over, told) = mpsc::channel(MAX_TUNNELS);
        tokio::spawn(keep(
            exchange,
            told,
            closing.clone(),
            closed.clone().drop_guard(),
        ));
        Ok(Door {
            port,
            incoming,
            over,
            link: self.link.clone(),
            closed,
            _closes: closing.drop_guard(),
        })
    }

    async fn ask_for_egress(
        &self,
        spec: EgressSpec,
    ) -> Result<(Exchange, NonZeroU16), TetherError> {
        let mut exchange = self.link.ask(&Request::Egress(spec)).await?;
        match exchange.prompt_frame().await?.message().map_err(received)? {
            FromEgress::Open { port } => Ok((exchange, port)),
            FromEgress::Failed(error) => Err(error.into()),
        }
    }
}

/// The way out, while it is open. Dropping it lets no more connections through at once, has the guest close its
/// listener, and cuts inside what it carries; a [`Connection`] itself is its holder's to drop.
#[derive(Debug)]
pub struct Door {
    port: NonZeroU16,
    incoming: Incoming,
    over: mpsc::Sender<u32>,
    link: Link,
    /// Cancelled when the guest, or the connection to it, has ended.
    closed: CancellationToken,
    _closes: DropGuard,
}

impl Door {
    /// Where programs inside find the proxy: `127.0.0.1:3128`, or another port, as the guest claims.
    #[must_use]
    pub fn proxy(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The file inside with the certificates that programs have to trust, those of the image among them.
    #[must_use]
    pub fn trust_file(&self) -> &'static str {
        TRUST_FILE
    }

    /// The next connection that a program has made and spoken on; `None` once the sandbox is lost. To be called without
    /// pause: a guest whose connections are not taken can open no more. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Connection> {
        let stream = tokio::select! {
            biased;
            () = self.closed.cancelled() => None,
            stream = self.incoming.next() => stream,
        };
        let tunnel = stream?.into_tunnel();
        let place = Place {
            number: tunnel.number(),
            over: self.over.clone(),
            link: self.link.clone(),
        };
        Some(Connection {
            io: tunnel.compat(),
            _place: place,
        })
    }
}

/// One connection of a program's: its bytes both ways, with the end of either direction. See [`Tunnel`] for how a cut
/// is told from an end. Dropped before both directions have ended, it is reset, inside too.
#[derive(Debug)]
pub struct Connection {
    io: Compat<Tunnel>,
    /// After the stream, so that it is gone when the guest hears of it.
    _place: Place,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// A connection's share of what the guest may have open.
#[derive(Debug)]
struct Place {
    number: u32,
    over: mpsc::Sender<u32>,
    link: Link,
}

impl Drop for Place {
    fn drop(&mut self) {
        // With the door nobody is left to be told. A full queue means that the guest has opened streams without waiting
        // for this word, or does not listen: none that keeps the protocol has more than that open or untold.
        if let Err(TrySendError::Full(_)) = self.over.try_send(self.number) {
            self.link.judge(Violation::Count.into());
        }
    }
}

/// Tells the guest which connections are over, until `closing`; then its end of the stream, which it sees, closes the way
/// out. Whatever the guest says or ends of itself is a breach.
async fn keep(
    exchange: Exchange,
    mut over: mpsc::Receiver<u32>,
    closing: CancellationToken,
    _closed: DropGuard,
) {
    let Exchange {
        mut reader,
        mut writer,
        link,
    } = exchange;
    let telling = async {
        while let Some(number) = over.recv().await {
            if let Err(error) = writer.send(&ToEgress::Over(number)).await {
                return sent(error);
            }
        }
        // The door goes piece by piece, and `closing` may be the last of them.
        std::future::pending().await
    };
    let error = tokio::select! {
        biased;
        () = closing.cancelled() => return,
        () = link.ended.cancelled() => return,
        error = telling => error,
        frame = reader.next() => match frame {
            Ok(Some(_)) => Violation::Order.into(),
            Ok(None) => TetherError::Lost,
            Err(error) => received(error),
        },
    };
    let error = link.judge(error);
    tracing::debug!(%error, "a guest ended the way out");
}

#[cfg(test)]
mod tests;
