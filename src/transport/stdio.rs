//! One client over standard input and output: the user who started the server.
//!
//! Nothing but protocol messages may ever be written to standard output.

use std::sync::Arc;

use rmcp::{ServiceExt as _, service::ServerInitializeError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

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

/// Serves the client at the other end of `input` and `output` until its input ends or `stop` fires.
pub async fn serve(
    broker: Arc<Broker>,
    structured: StructuredContent,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let server = Server::new(broker, Caller::Local, structured);
    let running = match server.serve_with_ct((input, output), stop).await {
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
