//! One client over standard input and output: the user who started the server.
//!
//! Nothing but protocol messages may ever be written to standard output. The connection is our own rather than the
//! SDK's (`wire`), which leaves a client without an answer to what it cannot read, and keeps without bound what a client
//! does not read.

mod ahead;
mod flights;
mod lines;
mod outbox;
mod wire;

use std::{sync::Arc, time::Duration};

use rmcp::{ServiceExt as _, service::ServerInitializeError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use self::{
    lines::MAX_LINE_BYTES,
    outbox::{MAX_UNREAD_BYTES, STALL},
};
use self::{outbox::Outbox, wire::Wire};
use crate::{broker::Broker, config::StructuredContent, tools::Server, types::Caller};

/// Why serving ended otherwise than by the end of the input or by `stop`.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The opening of the protocol failed.
    #[error("start the protocol with the client")]
    Start(#[source] Box<ServerInitializeError>),
    /// The protocol's task died.
    #[error("the protocol's task died")]
    Task(#[source] tokio::task::JoinError),
}

/// How long the protocol may take to end once the input has ended or it was told to stop: rmcp gives running calls up to
/// 5 s. A client that does not read its answers would hold it for ever, and with it every sandbox.
const END_PATIENCE: Duration = Duration::from_secs(7);

/// Serves the client at the other end of `input` and `output` until its input ends, it can get no more answers, or
/// `stop` fires. Returns within seconds of that, whatever the client does.
pub async fn serve(
    broker: Arc<Broker>,
    structured: StructuredContent,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let ended = stop.child_token();
    let (lost, abandon) = (CancellationToken::new(), CancellationToken::new());
    let _abandon = abandon.clone().drop_guard();
    let mut outbox = Outbox::new(output, lost.clone(), abandon);
    let wire = Wire::new(input, outbox.slot().clone(), lost, ended.clone());
    let served = async {
        let outcome = speak(broker, structured, wire, stop).await;
        ended.cancel();
        outbox.close().await;
        outcome
    };
    tokio::select! {
        outcome = served => outcome,
        () = async {
            ended.cancelled().await;
            tokio::time::sleep(END_PATIENCE).await;
        } => {
            tracing::warn!("the client does not read its answers: they are given up");
            Ok(())
        }
    }
}

async fn speak(
    broker: Arc<Broker>,
    structured: StructuredContent,
    wire: Wire<impl AsyncRead + Send + Unpin + 'static>,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let server = Server::new(broker, Caller::Local, structured);
    let running = match server.serve_with_ct(wire, stop).await {
        Ok(running) => running,
        // A client that leaves before it has said anything, or a stop before that, is an ordinary end.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(StdioError::Start(Box::new(error))),
    };
    running
        .waiting()
        .await
        .map(|_reason| ())
        .map_err(StdioError::Task)
}
