//! A daemon that takes every call and never answers: none may wait for it for ever.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::Instant,
};

use super::{Docker, Environment};
use crate::engine::{
    daemon::{Daemon as _, DaemonError, Resources, Volume},
    deadline,
    tests::any_spec,
};

/// How much later than its deadline a call may be given up.
const SLACK: Duration = Duration::from_secs(2);

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

/// Given up at its own deadline. The client library has a limit of its own, minutes later, that would hide a call
/// without one. The clock stands but where nothing else is to be done, so that this takes no time.
async fn given_up<T>(
    call: &str,
    deadline: Duration,
    answer: impl Future<Output = Result<T, DaemonError>>,
) {
    let asked = Instant::now();
    let answer = answer.await;
    assert!(
        matches!(answer, Err(DaemonError::Timeout { .. })),
        "{call}: {:?}",
        answer.err()
    );
    assert!(
        asked.elapsed() <= deadline + SLACK,
        "{call}: {:?}",
        asked.elapsed()
    );
}

#[tokio::test]
async fn every_call_to_a_daemon_that_does_not_answer_is_given_up_at_its_deadline() {
    let docker = silent().await;
    docker.version().await.unwrap();
    let resources = Resources {
        memory: 1,
        memory_swap: 1,
        pids_limit: 1,
        nano_cpus: 1,
    };
    let spec = any_spec(BTreeMap::new());
    let (image, volume) = (Bytes::new(), Volume::default());
    // What is waited for would take minutes.
    tokio::time::pause();
    given_up("info", deadline::QUERY, docker.info()).await;
    given_up("image", deadline::QUERY, docker.image("x")).await;
    given_up(
        "import_image",
        deadline::IMPORT,
        docker.import_image("x", "y", image),
    )
    .await;
    given_up("remove_image", deadline::REMOVE, docker.remove_image("x")).await;
    given_up("create", deadline::CREATE, docker.create("x", &spec)).await;
    given_up("inspect", deadline::QUERY, docker.inspect("x")).await;
    given_up("attach", deadline::ATTACH, docker.attach("x")).await;
    given_up("start", deadline::START, docker.start("x")).await;
    given_up("update", deadline::UPDATE, docker.update("x", &resources)).await;
    // How it is after the wait is asked besides.
    let wait = Duration::from_secs(1);
    given_up("wait", wait + deadline::QUERY, docker.wait("x", wait)).await;
    given_up("kill", deadline::KILL, docker.kill("x")).await;
    given_up("remove", deadline::REMOVE, docker.remove("x")).await;
    given_up("list", deadline::QUERY, docker.list(&[])).await;
    given_up("volume", deadline::QUERY, docker.volume("x")).await;
    given_up("volumes", deadline::QUERY, docker.volumes("x")).await;
    given_up(
        "create_volume",
        deadline::QUERY,
        docker.create_volume(&volume),
    )
    .await;
    given_up("remove_volume", deadline::REMOVE, docker.remove_volume("x")).await;
}
