//! A daemon that takes every call and never answers: none may wait for it for ever.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{Docker, Environment};
use crate::engine::daemon::{Daemon as _, DaemonError, Volume};

/// Says which version it is and nothing else.
async fn silent() -> Docker {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(talk(stream));
        }
    });
    Docker::new(Environment {
        configured: Some(format!("tcp://{address}")),
        ..Environment::default()
    })
}

async fn talk(mut stream: TcpStream) {
    let mut asked = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => asked.extend_from_slice(&buffer[..count]),
        }
        if asked.starts_with(b"GET /version") && asked.ends_with(b"\r\n\r\n") {
            asked.clear();
            let body = r#"{"Version":"28.0.0","ApiVersion":"1.41","MinAPIVersion":"1.24"}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

fn timed_out<T>(call: &str, answer: &Result<T, DaemonError>) {
    assert!(
        matches!(answer, Err(DaemonError::Timeout { .. })),
        "{call}: {:?}",
        answer.as_ref().err()
    );
}

#[tokio::test]
async fn every_call_to_a_daemon_that_does_not_answer_is_given_up() {
    let docker = silent().await;
    docker.version().await.unwrap();
    // What is waited for would take minutes.
    tokio::time::pause();
    timed_out("info", &docker.info().await);
    timed_out("image", &docker.image("x").await);
    timed_out("remove_image", &docker.remove_image("x").await);
    timed_out("inspect", &docker.inspect("x").await);
    timed_out("attach", &docker.attach("x").await);
    timed_out("start", &docker.start("x").await);
    timed_out("wait", &docker.wait("x", Duration::from_secs(1)).await);
    timed_out("kill", &docker.kill("x").await);
    timed_out("remove", &docker.remove("x").await);
    timed_out("list", &docker.list(&[]).await);
    timed_out("volume", &docker.volume("x").await);
    timed_out(
        "create_volume",
        &docker.create_volume(&Volume::default()).await,
    );
    timed_out("remove_volume", &docker.remove_volume("x").await);
}
