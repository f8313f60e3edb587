use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, DuplexStream},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    config::{Profile, Rule},
    egress::{
        client_hello::tests::hello,
        fixtures::{self, Notes},
    },
    policy::egress::fixtures::{endpoint, profile, rule},
};

struct Run {
    shared: Arc<Shared>,
    notes: Arc<Notes>,
}

impl Run {
    fn of(profile: Profile) -> Self {
        let notes = Notes::shared();
        Self {
            shared: fixtures::shared(profile, &notes),
            notes,
        }
    }

    /// A connection from inside, served.
    fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(Arc::clone(&self.shared), far));
        near
    }

    /// What comes back for `bytes`, to the end of the connection.
    async fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let mut io = self.connect();
        io.write_all(bytes).await.unwrap();
        rest(&mut io).await
    }

    /// The reasons of all that was denied.
    fn reasons(&self) -> Vec<&'static str> {
        let seen = self.notes.all();
        seen.iter()
            .filter_map(|seen| Some(seen.verdict.err()?.reason()))
            .collect()
    }
}

/// Everything to the end.
async fn rest(io: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut got = Vec::new();
    while let Ok(1..) = io.read_buf(&mut got).await {}
    got
}

async fn exactly<const N: usize>(io: &mut (impl AsyncRead + Unpin)) -> [u8; N] {
    let mut got = [0; N];
    io.read_exact(&mut got).await.unwrap();
    got
}

const AGREED: &[u8; 39] = b"HTTP/1.1 200 Connection established\r\n\r\n";

fn connect_to(target: &str) -> Vec<u8> {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes()
}

fn is_denial(answer: &[u8], reason: &str) -> bool {
    let answer = std::str::from_utf8(answer).unwrap();
    answer.starts_with(&format!("HTTP/1.1 403 belljar {reason}\r\n"))
        && answer.contains(&format!("\"reason\":\"{reason}\""))
}

/// A tunnel to a listener of this machine under the name `lab.test`.
async fn lab() -> (Profile, TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let at = format!("lab.test:{}", listener.local_addr().unwrap().port());
    let mut profile = profile(vec![Rule {
        tunnel: true,
        ..rule(&at)
    }]);
    if let crate::types::Host::Name(name) = endpoint(&at).host {
        profile
            .resolve
            .insert(name, vec!["127.0.0.1".parse().unwrap()]);
    }
    profile.allow_private = vec!["127.0.0.1/32".parse().unwrap()];
    (profile, listener, at)
}

/// A tunnel that stands: the program's end and the server's, after the server read the client hello.
async fn tunnelled(run: &Run, listener: &TcpListener, at: &str) -> (DuplexStream, TcpStream) {
    let mut inside = run.connect();
    let bytes = [connect_to(at), hello("lab.test", true)].concat();
    inside.write_all(&bytes).await.unwrap();
    assert_eq!(&exactly(&mut inside).await, AGREED);
    let (mut outside, _) = listener.accept().await.unwrap();
    let mut got = vec![0; hello("lab.test", true).len()];
    outside.read_exact(&mut got).await.unwrap();
    assert_eq!(got[..5], bytes[connect_to(at).len()..][..5]);
    (inside, outside)
}

#[tokio::test]
async fn a_host_that_no_rule_names_is_a_403_and_in_the_record() {
    let run = Run::of(profile(vec![rule("x.org:443")]));
    let answer = run.answer(&connect_to("y.org:443")).await;
    assert!(is_denial(&answer, "host_not_allowed"));
    let seen = run.notes.all();
    assert_eq!((seen[0].host.as_str(), seen[0].port), ("y.org", 443));
}

#[tokio::test]
async fn an_empty_profile_denies_connect_socks_and_plain_http_alike() {
    let run = Run::of(profile(vec![]));
    let answer = run.answer(&connect_to("x.org:80")).await;
    assert!(is_denial(&answer, "host_not_allowed"));
    let socks = [&[5, 1, 0, 5, 1, 0, 3, 5][..], b"x.org", &[0, 80]].concat();
    let answer = run.answer(&socks).await;
    assert_eq!(answer, [5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(run.reasons(), ["host_not_allowed", "host_not_allowed"]);
}

#[tokio::test]
async fn a_target_that_is_no_host_is_a_403_and_shown_escaped() {
    let run = Run::of(profile(vec![rule("x.org:443")]));
    let answer = run.answer(b"CONNECT x%00.org:443 HTTP/1.1\r\n\r\n").await;
    assert!(is_denial(&answer, "host_syntax"));
    assert!(!String::from_utf8(answer).unwrap().contains("%00"));
    assert_eq!(run.notes.all()[0].host, "x%00.org:443");
}

#[tokio::test]
async fn other_protocols_do_not_exist() {
    let run = Run::of(profile(vec![rule("x.org:443")]));
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x.org\r\n\r\n"[..],
        b"GET ftp://x.org/ HTTP/1.1\r\nHost: x.org\r\n\r\n",
        &hello("x.org", true),
        b"\0\0\0\x17postgres",
    ] {
        let answer = run.answer(bytes).await;
        assert!(is_denial(&answer, "protocol"), "{bytes:?}");
    }
    // SOCKS 4, BIND, UDP, and one that insists on a password.
    let rejected = run.answer(&[4, 1, 0, 80, 1, 2, 3, 4, 0]).await;
    assert_eq!(rejected, SOCKS_4_REJECTED);
    for command in [2, 3] {
        let bytes = [5, 1, 0, 5, command, 0, 1, 1, 2, 3, 4, 0, 80];
        assert_eq!(run.answer(&bytes).await[..4], [5, 0, 5, 7]);
    }
    assert_eq!(run.answer(&[5, 1, 2]).await, [5, 0xff]);
    assert_eq!(run.reasons(), ["protocol"; 8]);
}

#[tokio::test]
async fn a_malformed_first_head_is_refused() {
    let run = Run::of(profile(vec![rule("x.org:443")]));
    for (bytes, reason) in [
        (&b"CONNECT x.org:443 HTTP/1.1\n\n"[..], "malformed_head"),
        (
            b"CONNECT x.org:443 HTTP/1.1\r\n folded\r\n\r\n",
            "malformed_head",
        ),
        (
            b"CONNECT x.org:443 HTTP/1.1\r\nHost: y.org\r\n\r\n",
            "host_mismatch",
        ),
        (
            b"CONNECT x.org:443 HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
            "ambiguous_length",
        ),
        (
            b"CONNECT x.org:443 HTTP/1.1\r\nUpgrade: h2c\r\n\r\n",
            "upgrade",
        ),
    ] {
        assert!(is_denial(&run.answer(bytes).await, reason), "{reason}");
    }
    let endless = [b"CONNECT x".to_vec(), vec![b'x'; head::MAX_HEAD_BYTES]].concat();
    assert!(is_denial(&run.answer(&endless).await, "malformed_head"));
}

#[tokio::test]
async fn the_server_name_must_be_the_host_of_connect() {
    for tunnel in [false, true] {
        let run = Run::of(profile(vec![Rule {
            tunnel,
            ..rule("x.org:443")
        }]));
        for (hello, reason) in [
            (hello("y.org", true), "server_name_mismatch"),
            (hello("x.org", false), "server_name_missing"),
        ] {
            let bytes = [connect_to("x.org:443"), hello].concat();
            let answer = run.answer(&bytes).await;
            let expected = [&AGREED[..], &reply::ALERT_ACCESS_DENIED].concat();
            assert_eq!(answer, expected);
            assert_eq!(run.reasons().last(), Some(&reason));
        }
        let plain = b"GET / HTTP/1.1\r\nHost: x.org\r\n\r\n";
        let answer = run
            .answer(&[&connect_to("x.org:443"), &plain[..]].concat())
            .await;
        assert!(is_denial(&answer[AGREED.len()..], "not_tls"));
        // Nothing was allowed, so that nothing was dialled.
        assert!(run.shared.ledger.report().allowed.is_empty());
    }
}

#[tokio::test]
async fn tls_to_a_host_that_is_plain_http_is_refused() {
    let run = Run::of(profile(vec![rule("http://x.org:80")]));
    let bytes = [connect_to("x.org:80"), hello("x.org", true)].concat();
    let answer = run.answer(&bytes).await;
    assert_eq!(answer[AGREED.len()..], reply::ALERT_ACCESS_DENIED);
    assert_eq!(run.reasons(), ["scheme_not_allowed"]);
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_each_end_by_itself() {
    let (profile, listener, at) = lab().await;
    let run = Run::of(profile);
    let (mut inside, mut outside) = tunnelled(&run, &listener, &at).await;
    inside.write_all(b"ask").await.unwrap();
    inside.shutdown().await.unwrap();
    assert_eq!(rest(&mut outside).await, b"ask");
    outside.write_all(b"answer").await.unwrap();
    drop(outside);
    assert_eq!(rest(&mut inside).await, b"answer");
    let seen = run.notes.all();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].verdict, Ok(()));
    assert_eq!(seen[0].address, Some("127.0.0.1".parse().unwrap()));
}

#[tokio::test]
async fn a_tunnel_by_socks_is_the_same() {
    let (profile, listener, at) = lab().await;
    let run = Run::of(profile);
    let mut inside = run.connect();
    inside.write_all(&[5, 1, 0]).await.unwrap();
    assert_eq!(exactly(&mut inside).await, [5, 0]);
    let port = endpoint(&at).port.to_be_bytes();
    let request = [&[5, 1, 0, 3, 8][..], b"lab.test", &port].concat();
    inside.write_all(&request).await.unwrap();
    assert_eq!(
        exactly(&mut inside).await,
        socks::reply(socks::Code::Succeeded)
    );
    let hello = hello("lab.test", true);
    inside.write_all(&hello).await.unwrap();
    let (mut outside, _) = listener.accept().await.unwrap();
    let mut got = vec![0; hello.len()];
    outside.read_exact(&mut got).await.unwrap();
    assert_eq!(got, hello);
}

#[tokio::test]
async fn a_tunnel_whose_address_is_denied_is_refused_and_recorded() {
    let (mut profile, _listener, at) = lab().await;
    profile.allow_private.clear();
    let run = Run::of(profile);
    let bytes = [connect_to(&at), hello("lab.test", true)].concat();
    let answer = run.answer(&bytes).await;
    assert_eq!(answer[AGREED.len()..], reply::ALERT_ACCESS_DENIED);
    assert_eq!(run.reasons(), ["address_denied"]);
    assert!(run.shared.ledger.report().allowed.is_empty());
}

#[tokio::test]
async fn a_name_that_the_resolver_is_asked_for_is_on_record_whatever_it_says() {
    // Known to every system without asking outside, and denied.
    let run = Run::of(profile(vec![Rule {
        tunnel: true,
        ..rule("localhost:443")
    }]));
    let bytes = [connect_to("localhost:443"), hello("localhost", true)].concat();
    let answer = run.answer(&bytes).await;
    assert_eq!(answer[AGREED.len()..], reply::ALERT_ACCESS_DENIED);
    let seen = run.notes.all();
    assert_eq!(
        (seen[0].host.as_str(), seen[0].verdict),
        ("localhost", Ok(()))
    );
    assert_eq!(run.reasons(), ["address_denied"]);
}

#[tokio::test]
async fn a_tunnel_that_cannot_be_recorded_is_not_dialled() {
    let (profile, listener, at) = lab().await;
    let run = Run::of(profile);
    run.notes.fail();
    let bytes = [connect_to(&at), hello("lab.test", true)].concat();
    let answer = run.answer(&bytes).await;
    assert_eq!(answer[AGREED.len()..], reply::ALERT_ACCESS_DENIED);
    // The next to arrive is ours: nobody was before it.
    let port = listener.local_addr().unwrap();
    let (mine, accepted) = tokio::join!(TcpStream::connect(port), listener.accept());
    assert_eq!(mine.unwrap().local_addr().unwrap(), accepted.unwrap().1);
}

#[tokio::test]
async fn a_tunnel_to_a_server_that_is_down_ends_with_an_alert_and_is_no_denial() {
    let (profile, listener, at) = lab().await;
    drop(listener);
    let run = Run::of(profile);
    let bytes = [connect_to(&at), hello("lab.test", true)].concat();
    let answer = run.answer(&bytes).await;
    assert_eq!(answer[AGREED.len()..], reply::ALERT_INTERNAL_ERROR);
    assert!(run.reasons().is_empty());
}

#[tokio::test]
async fn the_end_of_the_run_cuts_a_tunnel_and_lets_no_new_one_in() {
    let (profile, listener, at) = lab().await;
    let run = Run::of(profile);
    let (mut inside, mut outside) = tunnelled(&run, &listener, &at).await;
    run.shared.stop.cancel();
    assert_eq!(rest(&mut outside).await, b"");
    assert_eq!(rest(&mut inside).await, b"");
    assert_eq!(rest(&mut run.connect()).await, b"");
    assert!(run.reasons().is_empty());
}

#[tokio::test]
async fn a_tunnel_ends_where_the_budget_of_bytes_does() {
    let (mut profile, listener, at) = lab().await;
    let hello = hello("lab.test", true).len() as u64;
    profile.budget.sent_bytes = hello + 10;
    let run = Run::of(profile);
    let (mut inside, mut outside) = tunnelled(&run, &listener, &at).await;
    inside.write_all(&[7; 100]).await.unwrap();
    assert_eq!(rest(&mut outside).await.len(), 10);
    assert_eq!(run.reasons(), ["too_much_sent"]);
}

#[tokio::test]
async fn what_a_tunnel_receives_beyond_the_budget_does_not_arrive() {
    let (mut profile, listener, at) = lab().await;
    profile.budget.received_bytes = 10;
    let run = Run::of(profile);
    let (mut inside, mut outside) = tunnelled(&run, &listener, &at).await;
    outside.write_all(&[7; 11]).await.unwrap();
    assert!(rest(&mut inside).await.len() <= 10);
    assert_eq!(run.reasons(), ["too_much_received"]);
}

#[tokio::test]
async fn more_connections_than_the_budget_has_are_shed_with_an_answer() {
    let mut profile = profile(vec![rule("x.org:443")]);
    profile.budget.connections = 2;
    let run = Run::of(profile);
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut io = run.connect();
        io.write_all(&connect_to("x.org:443")).await.unwrap();
        assert_eq!(&exactly(&mut io).await, AGREED);
        held.push(io);
    }
    for _ in 0..50 {
        let answer = run.answer(b"").await;
        assert!(is_denial(&answer, "too_many_connections"));
    }
    assert_eq!(run.reasons(), ["too_many_connections"; 50]);
}

#[tokio::test]
async fn after_the_last_request_of_the_budget_connections_are_refused() {
    let mut profile = profile(vec![rule("x.org:443")]);
    profile.budget.requests = 1;
    let run = Run::of(profile);
    let answer = run.answer(&connect_to("y.org:443")).await;
    assert!(is_denial(&answer, "host_not_allowed"));
    for _ in 0..3 {
        let answer = run.answer(&connect_to("x.org:443")).await;
        assert!(is_denial(&answer, "too_many_requests"));
    }
    assert_eq!(run.reasons(), ["host_not_allowed", "too_many_requests"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_is_dropped() {
    let run = Run::of(profile(vec![rule("x.org:443")]));
    for beginning in [&b""[..], b"CONN", &[5], &connect_to("x.org:443")] {
        let mut io = run.connect();
        io.write_all(beginning).await.unwrap();
        let got = rest(&mut io).await;
        assert!(got.is_empty() || got == AGREED || got == [5, 0], "{got:?}");
    }
    assert!(run.reasons().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_lasts_too_long_is_cut_and_recorded_with_its_host() {
    let mut profile = profile(vec![rule("x.org:443")]);
    profile.budget.duration = Duration::from_secs(3);
    let run = Run::of(profile);
    let mut io = run.connect();
    io.write_all(&connect_to("x.org:443")).await.unwrap();
    assert_eq!(rest(&mut io).await, AGREED);
    assert_eq!(run.reasons(), ["too_long"]);
    assert_eq!(run.notes.all()[0].host, "x.org");
}
