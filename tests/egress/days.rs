//! Bad days: servers that are down, slow, broken or endless, programs that flood, and what a run leaves behind.

use belljar_test_upstream::{Certificate, Options as Site, Upstream};
use serde_json::Value;

use crate::support::{NAMES, World};

const CONFIG: &str = r#"
[egress.lab]
allow = ["files.lab.test:{tls}", "http://plain.lab.test:{plain}", "files.lab.test:1"]
resolve = {names}
allow_private = ["127.0.0.1/32"]
upstream_ca = "{ca}"

[egress.small]
allow = ["files.lab.test:{tls}", { host = "pinned.lab.test:{tls}", tunnel = true }]
resolve = {names}
allow_private = ["127.0.0.1/32"]
upstream_ca = "{ca}"
budget = { requests = 20, connections = 2, sent_mib = 1, received_mib = 4, seconds = 2 }

[egress.afar]
allow = ["files.lab.test:{tls}"]
callers = ["token"]
"#;

/// The reasons of failures that a program printed, one line each.
fn reasons(stdout: &str) -> Vec<String> {
    let bodies = stdout.lines().filter_map(|line| line.split_once(' '));
    bodies
        .filter_map(|(_, body)| serde_json::from_str::<Value>(body).ok())
        .filter_map(|body| body["reason"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_is_told_from_a_denial() {
    let world = World::new(CONFIG).await;
    let ran = world
        .python(
            "lab",
            r#"
fetch("https://files.lab.test:1/down")
for path in ["garbage", "half-head", "close"]:
    fetch(f"http://plain.lab.test:{PLAIN}/{path}")
fetch(f"https://files.lab.test:{TLS}/reset")
"#,
        )
        .await;
    let stdout = ran.ok();
    let lines: Vec<&str> = stdout.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        lines[..4].iter().all(|line| line.starts_with("502 ")),
        "{stdout}"
    );
    let reasons = reasons(&stdout);
    assert_eq!(reasons[0], "upstream_unreachable", "{stdout}");
    assert!(
        reasons[1..]
            .iter()
            .all(|reason| reason.starts_with("upstream_")),
        "{stdout}"
    );
    // What had begun cannot be answered otherwise any more: it is cut.
    assert!(lines.last().unwrap().starts_with("failed: "), "{stdout}");
    assert!(ran.denied().is_empty(), "{stdout}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_must_be_good() {
    for bad in [
        Certificate::Expired,
        Certificate::WrongName,
        Certificate::SelfSigned,
    ] {
        let site = Site {
            certificate: bad,
            ..Site::named(&NAMES)
        };
        let world = World::on(Upstream::start(site).await, CONFIG);
        let ran = world
            .python("lab", r#"fetch(f"https://files.lab.test:{TLS}/echo")"#)
            .await;
        let stdout = ran.ok();
        assert_eq!(
            reasons(&stdout),
            ["upstream_certificate"],
            "{bad:?}: {stdout}"
        );
        assert!(world.upstream.seen().is_empty(), "{bad:?}");
        world.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_ends_with_the_budget() {
    let world = World::new(CONFIG).await;
    let ran = world
        .python(
            "small",
            r#"
s = secure("files.lab.test")
s.sendall(b"GET /huge?mib=10240 HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\n" % TLS)
got = 0
while True:
    try: piece = s.recv(1 << 16)
    except OSError: break
    if not piece: break
    got += len(piece)
print(1 << 20 < got <= 6 << 20, got)
"#,
        )
        .await;
    assert!(ran.ok().contains("True"), "{}", ran.stdout());
    assert_eq!(ran.denied(), ["too_much_received"]);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_the_budget_has_are_denied_and_recorded_once() {
    let world = World::new(CONFIG).await;
    let ran = world
        .python(
            "small",
            r#"
for _ in range(60):
    fetch(f"https://files.lab.test:{TLS}/echo")
"#,
        )
        .await;
    let stdout = ran.ok();
    assert_eq!(ran.denied(), ["too_many_requests"], "{stdout}");
    assert!(ran.allowed() <= 20, "{stdout}");
    let told = world.recorded(&ran.id());
    let denied = told
        .iter()
        .filter(|line| line["decision"]["verdict"] == "deny");
    assert_eq!(denied.count(), 1, "{told:?}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_http2_without_a_request_end_their_connection() {
    let world = World::new(CONFIG).await;
    let ran = world
        .python(
            "lab",
            r#"
frame = lambda kind, body: len(body).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 0]) + body
s = secure("files.lab.test", alpn=["h2"])
sent = 0
try:
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, b""))
    s.settimeout(0.001)
    while sent < 3_000_000:
        try: s.sendall(frame(6, b"12345678") * 500)
        except TimeoutError: break
        sent += 500
        try:
            while s.recv(1 << 16): pass
            break
        except (TimeoutError, ssl.SSLWantReadError): pass
except OSError: pass
print("cut", 0 < sent < 3_000_000)
fetch(f"https://files.lab.test:{TLS}/echo")
"#,
        )
        .await;
    let stdout = ran.ok();
    assert!(stdout.contains("cut True\n"), "{stdout}");
    assert!(stdout.contains("200 "), "{stdout}");
    assert_eq!(ran.denied(), ["too_many_frames"], "{stdout}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_at_once_are_shed() {
    let world = World::new(CONFIG).await;
    let ran = world
        .python(
            "lab",
            r#"
import resource
held = []
for _ in range(1000):
    try:
        s = socket.create_connection(PROXY, timeout=30); held.append(s)
        s.sendall(b"CONNECT files.lab.test:%d HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\n" % (TLS, TLS))
    except OSError as error:
        print("refused", error); break
answers = [s.recv(1024).split(b" ")[1] for s in held]
served, shed = answers.count(b"200"), answers.count(b"503")
print(len(held) > 500, 0 < served < 100, served + shed == len(held), shed > 0)
for s in held: s.close()
fetch(f"https://files.lab.test:{TLS}/echo")
"#,
        )
        .await;
    let stdout = ran.ok();
    assert!(stdout.contains("True True True True\n"), "{stdout}");
    assert!(stdout.contains("200 "), "{stdout}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_cuts_every_connection() {
    let world = World::new(CONFIG).await;
    let session = world.session("python", "lab").await;
    let first = world
        .python_in(
            &session,
            r#"
s = secure("files.lab.test")
s.sendall(b"GET /drip?n=100000&ms=20 HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\n" % TLS)
print(head(s).decode("latin-1"), flush=True)
os._exit(0)
"#,
        )
        .await;
    assert_eq!(first.0.sandbox.network, "lab");
    assert!(first.ok().contains("200"), "{}", first.stdout());
    // The next run of the session has a way out of its own, and what the first had is of no use.
    let second = world
        .python_in(&session, r#"fetch(f"https://files.lab.test:{TLS}/echo")"#)
        .await;
    assert!(second.ok().contains("200 "), "{}", second.stdout());
    assert_eq!(second.allowed(), 1);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_named_from_those_there_are() {
    let world = World::new(CONFIG).await;
    for name in ["github", "afar"] {
        let refusal = world
            .try_run(None, world.ask("python", name, "1"))
            .await
            .unwrap_err();
        assert_eq!(
            refusal.message(),
            format!(
                "no egress profile named \"{name}\" is configured; there are: none, lab, small. Leave network out to run without any"
            )
        );
    }
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_profile_there_is_no_way_out() {
    let world = World::new(CONFIG).await;
    let ran = world
        .run(
            "python",
            "none",
            r#"
import os, socket
print(sorted(name for name in os.environ if "proxy" in name.lower() or "CERT" in name))
for target in [("127.0.0.1", 3128), ("127.0.0.1", int(os.environ["TLS"])), ("192.0.2.1", 443)]:
    try: socket.create_connection(target, timeout=5); print("reached", target)
    except OSError as error: print(type(error).__name__)
try: socket.getaddrinfo("files.lab.test", 443); print("resolved")
except OSError: print("no names")
"#,
        )
        .await;
    let stdout = ran.ok();
    assert!(
        stdout.starts_with("[]\n") && !stdout.contains("reached"),
        "{stdout}"
    );
    assert!(stdout.contains("no names"), "{stdout}");
    assert_eq!(world.upstream.connections(), 0);
    world.close().await;
}
