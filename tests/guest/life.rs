//! The guest itself: what it outlives, what ends it, and what it refuses.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use belljar::engine::guest_binary::Architecture;
use belljar::engine::tether::RunEvent;
use belljar::engine::tether::message::{EndedBy, ExitStatus, FromHello, Hello, Request, RunSpec};
use belljar_wire::PROTOCOL;
use belljar_wire::frame::{FrameReader, FrameWriter};
use belljar_wire::limits::{MAX_REPLY, MAX_REQUEST};
use belljar_wire::mux::{self, Side};
use futures_util::AsyncReadExt as _;
use tokio::time::timeout;
use tokio_util::compat::TokioAsyncReadCompatExt as _;

use crate::harness::{Sandbox, container, daemon_architecture, guest_file, hear, spec};

/// Several times what the guest waits for a ping.
const SILENCE: Duration = Duration::from_mins(2);

#[tokio::test]
async fn out_of_memory_takes_the_program_and_not_the_guest() {
    let sandbox = Sandbox::start().await;
    let score = sandbox.run("cat /proc/self/oom_score_adj").await;
    assert_eq!(score.out(), "1000\n", "the program is the first to die");
    let said = sandbox
        .run("x=; while :; do x=$x$(printf '%1000000s' x); done")
        .await;
    assert_eq!(said.exit().status, ExitStatus::Signal(9), "{said:?}");
    assert_eq!(
        (said.exit().oom_kills, said.exit().ended_by),
        (1, EndedBy::Itself)
    );
    let said = sandbox.run("echo fine").await;
    assert_eq!((said.out().as_str(), said.exit().oom_kills), ("fine\n", 0));
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_run() {
    let sandbox = Sandbox::start().await;
    let bomb = RunSpec {
        timeout_ms: 2_000,
        ..spec("f() { f | f & }; f; sleep 1000")
    };
    let said = hear(&mut sandbox.begin(bomb).await).await.unwrap();
    assert!(said.exit.is_some());
    assert_eq!(
        sandbox
            .run("all=(/proc/[0-9]*); echo ${#all[@]}")
            .await
            .out(),
        "2\n"
    );
}

#[tokio::test]
async fn a_program_cannot_end_or_read_the_guest() {
    let sandbox = Sandbox::start().await;
    let script = "kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1; kill -XFSZ 1
                  cat /proc/1/environ /proc/1/mem; ls /proc/1/fd; cat /.belljar/init; ls /.belljar";
    assert_eq!(sandbox.run(script).await.out(), "");
    assert_eq!(sandbox.run("echo alive").await.out(), "alive\n");
}

#[tokio::test]
async fn the_container_ends_with_the_connection() {
    let sandbox = Sandbox::start().await;
    let mut run = sandbox.begin(spec("trap '' HUP TERM; sleep 1000")).await;
    assert_eq!(
        run.next().await.unwrap(),
        Some(RunEvent::Started { warm: false })
    );
    let Sandbox {
        tether,
        mut client,
        guest: _guest,
    } = sandbox;
    drop((run, tether));
    assert_eq!(client.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_container_that_nobody_greets_ends() {
    let guest = guest_file(daemon_architecture());
    let mut client = container(&guest).spawn().unwrap();
    let held_open = client.stdin.take();
    assert_eq!(client.wait().await.unwrap().code(), Some(0));
    drop(held_open);
}

/// A server that hangs, or whose host is gone, closes nothing.
#[tokio::test]
async fn a_container_whose_server_falls_silent_ends() {
    let guest = guest_file(daemon_architecture());
    let mut client = container(&guest).spawn().unwrap();
    let (read, write) = (client.stdout.take().unwrap(), client.stdin.take().unwrap());
    let io = tokio::io::join(read, write).compat();
    let (opener, _gate, driver) = mux::connect(io, Side::Server);
    let driver = tokio::spawn(driver);
    let (read, write) = opener.open().await.unwrap().split();
    let mut reader = FrameReader::new(read, MAX_REPLY);
    let mut writer = FrameWriter::new(write, MAX_REQUEST);
    let hello = Request::Hello(Hello { protocol: PROTOCOL });
    writer.send(&hello).await.unwrap();
    let answer = reader.next().await.unwrap().expect("an answer");
    let answer: FromHello = answer.message().unwrap();
    assert!(matches!(answer, FromHello::Ready(_)), "{answer:?}");
    // And not one ping.
    let ended = timeout(SILENCE, client.wait()).await;
    let ended = ended.expect("it ends by itself").unwrap();
    assert_eq!(ended.code(), Some(0));
    drop((reader, writer));
    driver.abort();
}

#[test]
fn the_guest_refuses_to_be_anything_but_pid_1_and_to_take_arguments_of_others() {
    // Else its "kill everything" would reach whatever its user runs.
    let own = Architecture::parse(std::env::consts::ARCH).expect("a guest for this machine");
    let guest = guest_file(own);
    for (arguments, code) in [
        (&[][..], 100),
        (&["--stub"], 100),
        (&["--stubs"], 104),
        (&["--stub", "--stub"], 104),
    ] {
        let status = Command::new(guest.path().join("init"))
            .args(arguments)
            .stdin(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn the_aarch64_guest_starts() {
    let guest = guest_file(Architecture::Aarch64);
    let path = guest.path().join("init");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new("qemu-aarch64")
        .arg(path)
        .arg("--version")
        .output()
        .expect("qemu-aarch64 is installed (Debian: qemu-user)");
    let version = format!("belljar-guest {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}
