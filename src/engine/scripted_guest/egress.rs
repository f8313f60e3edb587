//! The scripted guest's way out: connections that a script makes, and lies about them.
//!
//! What the server sends to be trusted can make it lie: `fail` has it refuse, `lie/bytes`, `lie/twice` and `lie/end`
//! break the protocol.

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_wire::frame::{FrameError, Kind};
use belljar_wire::limits::MAX_DATA;
use belljar_wire::message::{EGRESS_PORT, EgressSpec, FromEgress, GuestError, ToEgress};
use belljar_wire::mux::{Opener, Tunnel};
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::{Guest, Reader, Writer};

/// The way out, while it is open.
#[derive(Clone, Debug, Default)]
pub(super) struct Egress(Arc<Mutex<Option<Way>>>);

#[derive(Clone, Debug)]
struct Way {
    trust: Vec<u8>,
    closed: CancellationToken,
}

impl Egress {
    fn set(&self, way: Option<Way>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = way;
    }

    fn get(&self) -> Option<Way> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The certificates to trust, if the way out is open.
    pub(super) fn trust(&self) -> Option<Vec<u8>> {
        self.get().map(|way| way.trust)
    }
}

impl Guest {
    /// Serves a request to open the way out.
    pub(super) async fn open_egress(
        &self,
        spec: EgressSpec,
        mut reader: Reader,
        mut writer: Writer,
    ) -> Result<(), FrameError> {
        let open = match NonZeroU16::new(EGRESS_PORT) {
            Some(port) => FromEgress::Open { port },
            None => FromEgress::Failed(GuestError::Malformed),
        };
        match spec.trust.as_slice() {
            b"fail" => {
                let failed = FromEgress::Failed(GuestError::NoSpace);
                writer.send(&failed).await?;
                return writer.close().await;
            }
            b"lie/bytes" => writer.send_bytes(Kind::Data, b"open").await?,
            b"lie/twice" => {
                writer.send(&open).await?;
                writer.send(&open).await?;
            }
            b"lie/end" => {
                writer.send(&open).await?;
                return writer.close().await;
            }
            _ => writer.send(&open).await?,
        }
        let closed = CancellationToken::new();
        let _cuts = closed.clone().drop_guard();
        self.egress.set(Some(Way {
            trust: spec.trust,
            closed,
        }));
        while let Ok(Some(frame)) = reader.next().await {
            // One connection at a time never lacks a place.
            let ToEgress::Over(_) = frame.message()?;
        }
        self.egress.set(None);
        writer.close().await
    }

    /// Opens a connection, sends `bytes`, and copies what comes back to standard output until its end. A failure is
    /// said on standard error.
    pub(super) async fn dial(&self, bytes: &[u8], writer: &mut Writer) -> Result<(), FrameError> {
        let Some(way) = self.egress.get() else {
            return writer
                .send_bytes(Kind::Stderr, b"connection refused\n")
                .await;
        };
        let answered = way.closed.run_until_cancelled(async {
            let mut tunnel = speak(&self.opener, bytes).await?;
            let mut buffer = vec![0; MAX_DATA];
            loop {
                let count = tunnel.read(&mut buffer).await?;
                if count == 0 {
                    return Ok(());
                }
                writer.send_bytes(Kind::Stdout, &buffer[..count]).await?;
            }
        });
        if matches!(answered.await, Some(Ok::<(), FrameError>(()))) {
            return Ok(());
        }
        writer.send_bytes(Kind::Stderr, b"connection reset\n").await
    }

    /// Opens a stream whether there is a way out or not, and says when it is cut.
    pub(super) async fn knock(&self, writer: &mut Writer) -> Result<(), FrameError> {
        let mut tunnel = speak(&self.opener, b"x").await?;
        let said: &[u8] = match tunnel.read(&mut [0]).await {
            Ok(0) => b"ended\n",
            Ok(_) => b"answered\n",
            Err(_) => b"cut\n",
        };
        writer.send_bytes(Kind::Stdout, said).await
    }

    /// Opens streams and cuts them until the connection ends.
    pub(super) async fn flood_streams(&self) -> Result<(), FrameError> {
        loop {
            drop(speak(&self.opener, b"x").await?);
        }
    }
}

/// A new stream with the first bytes on it.
async fn speak(opener: &Opener, bytes: &[u8]) -> Result<Tunnel, FrameError> {
    let stream = opener.open().await.map_err(std::io::Error::other)?;
    let mut tunnel = stream.into_tunnel();
    tunnel.write_all(bytes).await?;
    tunnel.flush().await?;
    Ok(tunnel)
}
