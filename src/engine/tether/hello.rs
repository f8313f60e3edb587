//! The hello, and the pings that keep a connection alive.
//!
//! A guest that hears no ping ends itself and everything in its container, so a server that hangs or
//! whose host vanished leaves nothing running. A guest that answers none is lost to the server.

use std::time::Duration;

use belljar_wire::PROTOCOL;
use belljar_wire::message::{FromHello, Hello, Ready, Request, ToHello};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{Exchange, Link, TetherError, Violation, received, sent};

/// Time between two pings. A third of what the guest waits for one.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// How long the guest may take to answer a ping. Generous: the program may use up all of the
/// container's processor time.
const PONG_DEADLINE: Duration = Duration::from_secs(30);

/// Says hello and checks the answer.
pub(super) async fn greet(link: &Link) -> Result<(Ready, Exchange), TetherError> {
    let mut exchange = link
        .ask(&Request::Hello(Hello { protocol: PROTOCOL }))
        .await?;
    let answer: FromHello = exchange.frame().await?.message().map_err(received)?;
    match answer {
        FromHello::Ready(ready) if ready.protocol == PROTOCOL => Ok((ready, exchange)),
        FromHello::Ready(_) => Err(Violation::Protocol.into()),
        FromHello::Pong(_) => Err(Violation::Order.into()),
    }
}

/// Somebody who wants to know now whether the guest answers.
pub(super) type Probe = oneshot::Sender<()>;

/// Pings until the connection ends, and ends it when an answer is late or wrong. Pings at once for whoever asks.
pub(super) async fn keep_alive(
    mut exchange: Exchange,
    mut probes: mpsc::Receiver<Probe>,
    answered: watch::Sender<Instant>,
) {
    let ended = exchange.link.ended.clone();
    let _ends = ended.clone().drop_guard();
    let pings = async {
        for number in 1.. {
            let probe = tokio::select! {
                () = tokio::time::sleep(PING_INTERVAL) => None,
                Some(probe) = probes.recv() => Some(probe),
            };
            if let Err(error) = ping(&mut exchange, number).await {
                tracing::debug!(%error, "a sandbox does not answer pings");
                return;
            }
            answered.send_replace(Instant::now());
            // Whoever asked may have given up.
            let _ = probe.map(|probe| probe.send(()));
        }
    };
    tokio::select! {
        () = ended.cancelled() => {}
        () = pings => {}
    }
}

async fn ping(exchange: &mut Exchange, number: u64) -> Result<(), TetherError> {
    let answer = async {
        exchange
            .writer
            .send(&ToHello::Ping(number))
            .await
            .map_err(sent)?;
        let pong: FromHello = exchange.frame().await?.message().map_err(received)?;
        match pong {
            FromHello::Pong(answered) if answered == number => Ok(()),
            FromHello::Pong(_) | FromHello::Ready(_) => Err(Violation::Order.into()),
        }
    };
    tokio::time::timeout(PONG_DEADLINE, answer)
        .await
        .map_err(|_| Violation::Stalled)?
}
