//! Attaching to a container: a connection of its own to the daemon, taken over once the daemon agrees.
//!
//! The client library can attach too, but shares the two directions behind a lock and gathers every piece of output
//! before it hands it on; with bytes as the whole point of the connection, that was most of what a byte cost here.
//! What the daemon answers before it agrees is bounded; after that, nothing is in between.

use std::io;

use bollard::{ClientVersion, errors::Error};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, CONTENT_LENGTH, HOST, UPGRADE},
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};

use super::demux::Demux;
use crate::engine::{
    daemon::{Attached, Log},
    endpoint::Target,
};

/// Bytes of a refusal that are read: more than is ever quoted of it.
const MAX_REFUSAL_BYTES: usize = 16 * 1024;

/// Opens the standard streams of a container.
pub(super) async fn attach(
    target: &Target,
    version: &ClientVersion,
    container: &str,
) -> Result<Attached, Error> {
    let path = format!(
        "/v{}.{}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1",
        version.major_version, version.minor_version
    );
    match target {
        #[cfg(unix)]
        Target::Unix(socket) => {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            let (stream, first) = take_over(stream, "docker", &path).await?;
            let (read, write) = stream.into_split();
            Ok(attached(read, write, &first))
        }
        #[cfg(windows)]
        Target::NamedPipe(pipe) => {
            let (stream, first) = take_over(open_pipe(pipe).await?, "docker", &path).await?;
            let (read, write) = tokio::io::split(stream);
            Ok(attached(read, write, &first))
        }
        Target::Tcp(address) => {
            let stream = tokio::net::TcpStream::connect(address).await?;
            // A request to the guest is small, and waits for its answer.
            stream.set_nodelay(true)?;
            let (stream, first) = take_over(stream, address, &path).await?;
            let (read, write) = stream.into_split();
            Ok(attached(read, write, &first))
        }
        #[cfg(not(unix))]
        Target::Unix(_) => Err(Error::UnsupportedURISchemeError {
            uri: target.to_string(),
        }),
        #[cfg(not(windows))]
        Target::NamedPipe(_) => Err(Error::UnsupportedURISchemeError {
            uri: target.to_string(),
        }),
    }
}

/// Opens a named pipe; while all its instances are taken, one becomes free at any moment.
#[cfg(windows)]
async fn open_pipe(pipe: &str) -> io::Result<tokio::net::windows::named_pipe::NamedPipeClient> {
    /// The system's number for that.
    const ERROR_PIPE_BUSY: i32 = 231;
    loop {
        match tokio::net::windows::named_pipe::ClientOptions::new().open(pipe) {
            Err(error) if error.raw_os_error() == Some(ERROR_PIPE_BUSY) => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            other => return other,
        }
    }
}

fn attached(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    first: &[u8],
) -> Attached {
    let log = Log::default();
    Attached {
        stdout: Box::new(Demux::new(read, first, log.clone())),
        stdin: Box::new(write),
        log,
    }
}

/// Asks for the connection itself. Gives it back, and what was read of it beyond the answer.
async fn take_over<S>(stream: S, host: &str, path: &str) -> Result<(S, Bytes), Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = Request::post(path)
        .header(HOST, host)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "tcp")
        .header(CONTENT_LENGTH, 0)
        .body(Empty::<Bytes>::new())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let connection = connection.with_upgrades();
    let answered = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response).await);
        }
        hyper::upgrade::on(response).await.map_err(failed)
    };
    let upgraded = tokio::select! {
        biased;
        upgraded = answered => upgraded?,
        // In no task of its own, so that it ends with this call. How it fails, the sender is told.
        never = async {
            let _ = connection.await;
            std::future::pending::<std::convert::Infallible>().await
        } => match never {},
    };
    let parts = upgraded
        .downcast::<TokioIo<S>>()
        .map_err(|_| io::Error::other("not the connection that was made"))?;
    Ok((parts.io.into_inner(), parts.read_buf))
}

fn failed(err: hyper::Error) -> Error {
    Error::HyperResponseError { err }
}

/// The daemon's own words on why not.
async fn refused(response: Response<Incoming>) -> Error {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let status_code = response.status().as_u16();
    let body = Limited::new(response.into_body(), MAX_REFUSAL_BYTES)
        .collect()
        .await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let message = match serde_json::from_slice::<Refusal>(&body) {
        Ok(refusal) => refusal.message,
        Err(_) => String::from_utf8_lossy(&body).into_owned(),
    };
    Error::DockerResponseServerError {
        status_code,
        message,
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const VERSION: ClientVersion = ClientVersion {
        major_version: 1,
        minor_version: 41,
    };

    /// Takes one request and gives this answer; the connection stays open for what is to follow.
    async fn daemon(answer: Vec<u8>) -> (Target, tokio::task::JoinHandle<(String, TcpStream)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::Tcp(listener.local_addr().unwrap().to_string());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(&answer).await.unwrap();
            (String::from_utf8(asked).unwrap(), stream)
        });
        (target, serving)
    }

    #[tokio::test]
    async fn the_connection_is_taken_over_with_what_came_right_behind_the_answer() {
        let mut answer =
            b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n".to_vec();
        answer.extend_from_slice(b"\x01\0\0\0\0\0\0\x05first\x02\0\0\0\0\0\0\x03err");
        let (target, serving) = daemon(answer).await;
        let mut attached = attach(&target, &VERSION, "abc").await.unwrap();
        let (asked, mut stream) = serving.await.unwrap();
        assert!(
            asked.starts_with("POST /v1.41/containers/abc/attach?stream=1&stdin=1&"),
            "{asked}"
        );
        attached.stdin.write_all(b"question").await.unwrap();
        let mut question = [0; 8];
        stream.read_exact(&mut question).await.unwrap();
        assert_eq!(&question, b"question");
        stream
            .write_all(b"\x01\0\0\0\0\0\0\x06answer")
            .await
            .unwrap();
        let mut said = [0; 11];
        attached.stdout.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"firstanswer");
        assert_eq!(attached.log.quoted(), "err");
        attached.stdin.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_refusal_is_quoted_within_its_bound() {
        let long = "x".repeat(2 * MAX_REFUSAL_BYTES);
        for (body, said) in [
            (r#"{"message":"no such container"}"#, "no such container"),
            (&long, ""),
        ] {
            let answer = format!(
                "HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let (target, _serving) = daemon(answer.into_bytes()).await;
            let Err(Error::DockerResponseServerError {
                status_code: 404,
                message,
            }) = attach(&target, &VERSION, "abc").await
            else {
                panic!("sorted wrongly")
            };
            assert_eq!(message, said);
        }
    }
}
