//! The way out: what programs send and hear through the guest's listener, and that it is bounded and ends.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar::engine::tether::message::{ExitStatus, GuestError, RunSpec};
use belljar::engine::tether::{Connection, Door, RunEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use crate::harness::{PYTHON, Said, Sandbox, guest_error, hear, spec};

/// What the guest carries at a time.
const PLACES: usize = 32;
/// What waits for a place.
const WAITING: usize = 128;

/// A Python program with `connect()` and `reset(socket)`.
fn python(script: &str) -> RunSpec {
    const TOOLS: &str = r#"
import os, socket, struct, sys
def connect():
    return socket.create_connection(("127.0.0.1", 3128), timeout=30)
def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
def read(s):
    try:
        whole = []
        while piece := s.recv(65536):
            whole.append(piece)
        return b"".join(whole)
    except ConnectionResetError:
        return None
def say(*words):
    print(*words, flush=True)
"#;
    let mut spec = spec("");
    spec.argv = ["python3", "/workspace/.main.py"].map(str::to_owned).into();
    let program = spec.program.as_mut().unwrap();
    program.path = b".main.py".to_vec();
    program.bytes = format!("{TOOLS}\n{script}").into();
    spec
}

async fn open(sandbox: &Sandbox) -> Door {
    sandbox.tether.open_egress(Vec::new()).await.unwrap()
}

/// Runs a program beside what the server does with its connections.
async fn beside<T>(
    sandbox: &Sandbox,
    script: &str,
    server: impl Future<Output = T>,
) -> (String, T) {
    let program = async {
        hear(&mut sandbox.begin(python(script)).await)
            .await
            .unwrap()
    };
    let (said, outcome) = tokio::join!(program, server);
    (fine(&said), outcome)
}

fn fine(said: &Said) -> String {
    assert_eq!(said.exit().status, ExitStatus::Code(0), "{said:?}");
    said.out()
}

async fn read_to_end(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while connection.read_buf(&mut bytes).await.unwrap() > 0 {}
    bytes
}

#[tokio::test]
async fn bytes_go_both_ways_whole_and_in_every_run_anew() {
    let sandbox = Sandbox::of(PYTHON).await;
    for _ in 0..2 {
        let mut door = open(&sandbox).await;
        assert_eq!(door.proxy(), "127.0.0.1:3128");
        let script = "import threading
s = connect(); sent = os.urandom(20_000_000)
def send():
    s.sendall(sent); s.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send); sender.start()
say(read(s) == sent)
sender.join()";
        let echo = async {
            let mut connection = door.next().await.unwrap();
            let (mut read, mut write) = tokio::io::split(&mut connection);
            tokio::io::copy(&mut read, &mut write).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let (out, ()) = beside(&sandbox, script, echo).await;
        assert_eq!(out, "True\n");
    }
}

#[tokio::test]
async fn either_side_may_end_its_direction_first() {
    let sandbox = Sandbox::of(PYTHON).await;
    let mut door = open(&sandbox).await;
    let script = "s = connect(); s.sendall(b'ask'); s.shutdown(socket.SHUT_WR); say(read(s))
s = connect(); s.sendall(b'hello'); say(read(s)); s.sendall(b' again'); s.close()";
    let server = async {
        let mut first = door.next().await.unwrap();
        assert_eq!(read_to_end(&mut first).await, b"ask");
        first.write_all(b"answer").await.unwrap();
        first.shutdown().await.unwrap();
        let mut second = door.next().await.unwrap();
        second.write_all(b"banner").await.unwrap();
        second.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut second).await, b"hello again");
    };
    let (out, ()) = beside(&sandbox, script, server).await;
    assert_eq!(out, "b'answer'\nb'banner'\n");
}

#[tokio::test]
async fn a_side_that_dies_resets_the_other() {
    let sandbox = Sandbox::of(PYTHON).await;
    let mut door = open(&sandbox).await;
    let script = "s = connect(); s.sendall(b'x'); say(read(s))
s = connect(); s.sendall(b'y'); s.recv(1); reset(s)";
    let server = async {
        drop(door.next().await.unwrap());
        let mut second = door.next().await.unwrap();
        let mut byte = [0];
        second.read_exact(&mut byte).await.unwrap();
        second.write_all(b"z").await.unwrap();
        second.read(&mut byte).await.unwrap_err().kind()
    };
    let (out, kind) = beside(&sandbox, script, server).await;
    assert_eq!((out.as_str(), kind), ("None\n", ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_program_that_dies_while_it_listens_does_not_hold_up_the_server() {
    let sandbox = Sandbox::of(PYTHON).await;
    let mut door = open(&sandbox).await;
    let script = "s = connect(); s.sendall(b'x'); s.shutdown(socket.SHUT_WR); s.recv(1); reset(s)";
    let server = async {
        let mut connection = door.next().await.unwrap();
        assert_eq!(read_to_end(&mut connection).await, b"x");
        // More than any window.
        connection.write_all(&vec![0; 40_000_000]).await.unwrap();
        connection.shutdown().await.unwrap();
    };
    beside(&sandbox, script, server).await;
}

#[tokio::test]
async fn of_many_connections_at_once_each_is_served_or_told_that_they_are_too_many() {
    let sandbox = Sandbox::of(PYTHON).await;
    let mut door = open(&sandbox).await;
    let script = "every = []
for _ in range(200):
    every.append(connect()); every[-1].sendall(b'x')
say('connected')
heard = [read(s) for s in every]
full = [h for h in heard if h.startswith(b'HTTP/1.1 503 ')]
assert all(b'\"reason\":\"too_many_connections\"' in h for h in full)
say(heard.count(b'ok'), len(full))";
    let all_connected = CancellationToken::new();
    let open_now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let serving = tokio::spawn({
        let (all_connected, most) = (all_connected.clone(), Arc::clone(&most));
        async move {
            while let Some(mut connection) = door.next().await {
                let (all_connected, open_now) = (all_connected.clone(), Arc::clone(&open_now));
                most.fetch_max(
                    open_now.fetch_add(1, Ordering::SeqCst) + 1,
                    Ordering::SeqCst,
                );
                tokio::spawn(async move {
                    connection.read_exact(&mut [0]).await.unwrap();
                    all_connected.cancelled().await;
                    connection.write_all(b"ok").await.unwrap();
                    connection.shutdown().await.unwrap();
                    open_now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
    });
    let mut run = sandbox.begin(python(script)).await;
    while !matches!(run.next().await.unwrap(), Some(RunEvent::Stdout(_))) {}
    all_connected.cancel();
    let out = fine(&hear(&mut run).await.unwrap());
    let counts: Vec<usize> = out.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [served, full] = counts[..] else {
        panic!("{out}")
    };
    assert_eq!(served + full, 200);
    // The program has closed none of them yet: that the server has let go is enough. Those that were carried come on
    // top of those that waited, as far as they had left the queue by then.
    assert!((WAITING..=WAITING + PLACES).contains(&served), "{out}");
    assert_eq!(most.load(Ordering::SeqCst), PLACES);
    assert!(!sandbox.tether.is_lost());
    serving.abort();
}

#[tokio::test]
async fn a_connection_that_gets_no_place_in_time_is_told_so() {
    let sandbox = Sandbox::of(PYTHON).await;
    let mut door = open(&sandbox).await;
    let script = "held = [connect() for _ in range(32)]
for s in held: s.sendall(b'x')
late = connect(); late.sendall(b'x'); say(read(late)[:13])";
    let server = async {
        let mut held = Vec::new();
        for _ in 0..PLACES {
            held.push(door.next().await.unwrap());
        }
        held
    };
    let (out, _held) = beside(&sandbox, script, server).await;
    assert_eq!(out, "b'HTTP/1.1 503 '\n");
}

#[tokio::test]
async fn the_end_of_the_door_cuts_what_is_carried_and_what_waits() {
    let sandbox = Sandbox::of(PYTHON).await;
    let mut door = open(&sandbox).await;
    let script =
        "held, silent = connect(), connect(); held.sendall(b'x'); held.recv(1); say('holding')
say(read(held), read(silent))
try: connect()
except ConnectionRefusedError: say('refused')";
    let mut run = sandbox.begin(python(script)).await;
    let mut held = door.next().await.unwrap();
    held.write_all(b"y").await.unwrap();
    while !matches!(run.next().await.unwrap(), Some(RunEvent::Stdout(_))) {}
    drop(door);
    let out = fine(&hear(&mut run).await.unwrap());
    assert_eq!(out, "None None\nrefused\n");
    held.read_exact(&mut [0]).await.unwrap();
    let error = held.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(!sandbox.tether.is_lost());
}

#[tokio::test]
async fn the_listener_is_on_loopback_and_on_another_port_where_its_own_is_taken() {
    let sandbox = Sandbox::of(PYTHON).await;
    let listening = "for line in open('/proc/net/tcp').readlines()[1:]: say(line.split()[1])
say(len(open('/proc/net/tcp6').readlines()))";
    let door = open(&sandbox).await;
    let said = hear(&mut sandbox.begin(python(listening)).await).await;
    assert_eq!(fine(&said.unwrap()), "0100007F:0C38\n1\n");
    drop(door);
    let script = "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try: s.bind(('127.0.0.1', 3128)); break
    except OSError: pass
s.listen(); say('taken')
while True: s.accept()";
    let mut run = sandbox.begin(python(script)).await;
    while !matches!(run.next().await.unwrap(), Some(RunEvent::Stdout(_))) {}
    let door = open(&sandbox).await;
    assert!(door.proxy().starts_with("127.0.0.1:"));
    assert_ne!(door.proxy(), "127.0.0.1:3128");
}

const TRUST: &[u8] = b"-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";

#[tokio::test]
async fn the_trust_file_has_the_images_certificates_and_ours_while_the_door_is_open() {
    let sandbox = Sandbox::start().await;
    let door = sandbox.tether.open_egress(TRUST.to_vec()).await.unwrap();
    let script = "stat -c '%a %F' /tmp/.belljar/ca.pem; cat /tmp/.belljar/ca.pem
                  cat /etc/ssl/certs/ca-certificates.crt >&2; ls -A /tmp /tmp/.belljar >/workspace/listing";
    let said = sandbox.run(script).await;
    assert_eq!(door.trust_file(), "/tmp/.belljar/ca.pem");
    let expected = [b"644 regular file\n", &said.stderr[..], TRUST].concat();
    assert!(said.stderr.len() > 100_000, "the image has certificates");
    assert_eq!(said.stdout, expected);
    let listing = sandbox.read("listing").await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&listing),
        "/tmp:\n.belljar\n\n/tmp/.belljar:\nca.pem\n"
    );
    drop(door);
    let gone = "while [ -e /tmp/.belljar ]; do sleep 0.01; done; echo gone";
    assert_eq!(sandbox.run(gone).await.out(), "gone\n");
}

#[tokio::test]
async fn what_a_former_program_put_in_the_place_of_the_trust_file_is_replaced_and_not_followed() {
    let sandbox = Sandbox::start().await;
    for trap in [
        "ln -s /workspace/victim /tmp/.belljar",
        "echo file >/tmp/.belljar",
        "mkdir /tmp/.belljar; ln -s /workspace/victim/ca.pem /tmp/.belljar/ca.pem; chmod 0 /tmp/.belljar /tmp",
        "mkdir -p /tmp/.belljar/ca.pem",
        "mkdir /tmp/.belljar; ln -s /workspace/victim/ca.pem /tmp/.belljar/.belljar-0.part",
        "mkdir /tmp/.belljar; echo old >/tmp/.belljar/ca.pem; ln /tmp/.belljar/ca.pem /tmp/other",
    ] {
        let plant = format!("mkdir -p victim; echo mine >victim/ca.pem; {trap}");
        let said = sandbox.run(&plant).await;
        assert_eq!(said.exit().status, ExitStatus::Code(0), "{said:?}");
        let door = sandbox.tether.open_egress(TRUST.to_vec()).await.unwrap();
        let script = "cat victim/ca.pem; tail -n 2 /tmp/.belljar/ca.pem; stat -c %F /tmp/.belljar /tmp/.belljar/ca.pem
                      if [ -e /tmp/other ]; then cat /tmp/other; rm /tmp/other; fi >&2";
        let said = sandbox.run(script).await;
        assert_eq!(
            said.out(),
            "mine\nours\n-----END CERTIFICATE-----\ndirectory\nregular file\n",
            "{trap}: {said:?}"
        );
        if !said.stderr.is_empty() {
            assert_eq!(said.stderr, b"old\n", "another name of the old file");
        }
        drop(door);
        let gone = "while [ -e /tmp/.belljar ]; do sleep 0.01; done";
        sandbox.run(gone).await;
    }
    let full = "mkdir -p /tmp/.belljar/ca.pem/not-empty";
    sandbox.run(full).await;
    let failed = sandbox.tether.open_egress(TRUST.to_vec()).await;
    assert_eq!(guest_error(failed.unwrap_err()), GuestError::Exists);
    sandbox.run("rm -r /tmp/.belljar").await;
    drop(open(&sandbox).await);
}
