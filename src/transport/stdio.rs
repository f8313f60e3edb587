//! One client over standard input and output: the user who started the server.
//!
//! Nothing but protocol messages may ever be written to standard output.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rmcp::{ServiceExt as _, service::ServerInitializeError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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

/// How long the protocol may take to end once the input has ended or it was told to stop: rmcp gives running calls up to
/// 5 s. A client that does not read its answers would hold it for ever, and with it every sandbox.
const END_PATIENCE: Duration = Duration::from_secs(7);

/// Serves the client at the other end of `input` and `output` until its input ends or `stop` fires. Returns within
/// seconds of that, whatever the client does.
pub async fn serve(
    broker: Arc<Broker>,
    structured: StructuredContent,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let ended = stop.child_token();
    let input = Watched {
        input,
        ended: ended.clone(),
    };
    let served = speak(broker, structured, input, output, stop);
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

/// An input that tells when it has ended.
struct Watched<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.input).poll_read(context, buffer);
        let nothing_more = match &read {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if nothing_more {
            self.ended.cancel();
        }
        read
    }
}
