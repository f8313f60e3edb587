//! Clients over HTTP.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use belljar_test_client::{
    PATIENCE, Server,
    http::{self, Door, LEGACY, Reply, reply},
    left,
};
use serde_json::{Value, json};

use crate::{assert_peak, command, until};

const TOKEN: &str = "clumsy-clumsy-clumsy-clumsy-clumsy";
/// The most memory that the server may ever have held for clients that do not read, in KiB: what it has anyway, what is
/// made at a time of large answers, which is several times what they are, and what may lie unread of them.
const MAX_PEAK_UNREAD_KIB: u64 = 176 * 1024;
/// The same for clients that say hello and go, or begin what they do not end.
const MAX_PEAK_IDLE_KIB: u64 = 128 * 1024;
/// Connections that the server has at a time.
const PLACES: usize = 256;
/// Descriptors that come and go for other reasons.
const OTHERS: usize = 16;
/// How many clients crowd at a time: with the others fewer than there are places.
const CROWD: usize = 100;
/// How many of them ask for a large answer.
const LARGE: usize = 100;

fn start(state: &Path) -> Server {
    // Large blocks go back to the system when they are freed, so that the figures are what is held, and not what the
    // allocator keeps for a next time.
    Server::over_http(
        command(state).env("MALLOC_MMAP_THRESHOLD_", "131072"),
        TOKEN,
    )
}

/// The server serves others, and in the end leaves nothing.
fn serves_and_ends(mut server: Server) {
    server.works(PATIENCE).unwrap();
    let instances = left::instances(server.state());
    assert_eq!(server.close(), Some(0));
    assert_eq!(left::containers(&instances), BTreeSet::new());
    let strangers = left::strangers(server.state(), None);
    assert_eq!(strangers, BTreeSet::new());
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "clumsy", "version": "0"},
    }})
}

/// Says hello as a client of the older revisions, on a connection of its own.
fn hello(door: &Door) -> Reply {
    let text = door.post(&[("Connection", "close")], &initialize());
    reply(&door.begin(&text).unwrap()).expect("a reply")
}

/// A request in a session of the protocol.
fn in_session(door: &Door, session: &str, message: &Value) -> String {
    let head = [
        ("Mcp-Session-Id", session),
        ("MCP-Protocol-Version", LEGACY),
        ("Connection", "close"),
    ];
    door.post(&head, message)
}

fn run(code: &str) -> Value {
    let arguments = json!({"language": "bash", "code": code, "timeout_seconds": 300});
    json!({"name": "run_code", "arguments": arguments})
}

/// A session that can be used, opened by a client that does everything right.
fn session(door: &Door) -> String {
    let told = hello(door);
    assert_eq!(told.status, 200, "{told:?}");
    let session = told.header("mcp-session-id").unwrap().to_owned();
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let done = reply(&door.begin(&in_session(door, &session, &done)).unwrap());
    assert_eq!(done.unwrap().status, 202);
    session
}

#[test]
#[ignore = "takes a minute: `make faults`"]
fn answers_that_nobody_reads_cost_little_and_hold_up_nobody() {
    let state = tempfile::tempdir().unwrap();
    let mut server = start(state.path());
    let code = json!({"language": "bash", "code": "head -c 4194304 /dev/urandom >large"});
    let large = server.ok("run_code", &code)["artifacts"][0]["artifact_id"].clone();
    let door = server.door().clone();
    let mut unread: Vec<TcpStream> = Vec::new();
    // Ten thousand requests, a hundred on each connection, one behind the other.
    for _ in 0..CROWD {
        let mut stream = door.connect();
        stream.set_nonblocking(true).unwrap();
        let request = door
            .ask(1, "tools/list", json!({}))
            .replace("Connection: close\r\n", "");
        // What the server does not take is not sent.
        let _ = stream.write_all(request.repeat(100).as_bytes());
        unread.push(stream);
    }
    assert_peak(
        &server.process,
        "over HTTP, unread lists",
        MAX_PEAK_UNREAD_KIB,
    );
    // Some megabytes of an answer on each, more of them than may lie unread at a time.
    for _ in 0..LARGE {
        let arguments = json!({"artifact_id": large, "length": 4_194_304, "encoding": "base64"});
        let fetch = json!({"name": "fetch_artifact", "arguments": arguments});
        unread.push(door.begin(&door.ask(1, "tools/call", fetch)).unwrap());
    }
    // Streams of events.
    for _ in 0..20 {
        let head = [
            ("Host", door.addr.to_string()),
            ("Authorization", format!("Bearer {TOKEN}")),
            ("Accept", "text/event-stream".to_owned()),
            ("Mcp-Session-Id", session(&door)),
            ("MCP-Protocol-Version", LEGACY.to_owned()),
        ];
        let head: Vec<(&str, &str)> = head.iter().map(|(n, v)| (*n, v.as_str())).collect();
        unread.push(door.begin(&http::request("GET /mcp", &head, "")).unwrap());
    }
    server.works(PATIENCE).unwrap();
    // One that reads gets the same answer, once most of those before it have gone and the others were cut off.
    unread.truncate(CROWD + 10);
    let ask = json!({"artifact_id": large, "length": 4_194_304, "encoding": "base64"});
    assert_eq!(server.ok("fetch_artifact", &ask)["length"], 4_194_304);
    assert_peak(&server.process, "over HTTP, unread", MAX_PEAK_UNREAD_KIB);
    serves_and_ends(server);
    drop(unread);
}

#[test]
fn clients_that_say_hello_and_go_keep_nobody_out() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path());
    let door = server.door().clone();
    // One that was there first, and has a call under way all the time.
    let first = session(&door);
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": run("read -t 300 <> <(:); echo late")});
    let held = door.begin(&in_session(&door, &first, &call)).unwrap();
    until("it runs", || {
        left::recorded(state.path(), "begin_run").len() == 1
    });
    for _ in 0..1000 {
        let told = hello(&door);
        assert_eq!(told.status, 200, "{told:?}");
    }
    let list = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list", "params": {}});
    for session in [first.clone(), session(&door)] {
        let told = reply(&door.begin(&in_session(&door, &session, &list)).unwrap()).unwrap();
        assert!(told.message(8).is_some(), "{told:?}");
    }
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    reply(&door.begin(&in_session(&door, &first, &cancel)).unwrap()).unwrap();
    until("its call is over", || {
        let runs = left::recorded(state.path(), "run_code");
        runs.iter()
            .any(|line| line["outcome"]["status"] == "cancelled")
    });
    assert_peak(&server.process, "1,000 hellos", MAX_PEAK_IDLE_KIB);
    serves_and_ends(server);
    drop(held);
}

#[test]
fn calls_that_are_hung_up_on_are_recorded_and_leave_no_container() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path());
    let door = server.door().clone();
    let begun = |count| {
        until("they run", || {
            left::recorded(state.path(), "begin_run").len() == count
        });
    };
    let modern: Vec<TcpStream> = (0..4)
        .map(|id| {
            let ask = door.ask(id, "tools/call", run("echo before; sleep 300"));
            door.begin(&ask).unwrap()
        })
        .collect();
    begun(4);
    // Of the older revisions a client may come back for its answer: its run goes on.
    let session = session(&door);
    let legacy: Vec<TcpStream> = (0..4)
        .map(|id| {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": run("sleep 1; echo after")});
            door.begin(&in_session(&door, &session, &call)).unwrap()
        })
        .collect();
    begun(8);
    drop((modern, legacy));
    let ended = |status: &str| {
        let runs = left::recorded(state.path(), "run_code");
        let ended = runs
            .iter()
            .filter(|line| line["outcome"]["status"] == status);
        ended.count()
    };
    until("four are cancelled and four have ended", || {
        ended("cancelled") == 4 && ended("exited") == 4
    });
    let instances = left::instances(state.path());
    until("their containers are gone", || {
        left::containers(&instances).is_empty()
    });
    serves_and_ends(server);
}

#[test]
fn what_is_begun_and_never_ended_keeps_nobody_out() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path());
    let door = server.door().clone();
    let whole = door.ask(1, "tools/list", json!({}));
    let before = server.process.open_files();
    // More than there are places, and no more than the system lets wait for one: all are there at once.
    let mut held: Vec<TcpStream> = (0..PLACES + 96)
        .map(|at| {
            let half = &whole[..whole.len() / 3 * (at % 2)];
            door.begin(half).unwrap()
        })
        .collect();
    let taken = || server.process.open_files().saturating_sub(before);
    until("all places are taken", || taken() + OTHERS >= PLACES);
    let last = door.begin(&whole).unwrap();
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = reply(&last).expect("an answer while others say nothing");
    assert!(told.message(1).is_some(), "{told:?}");
    // Who comes last is accepted last: without a bound there would be all the others too.
    let most = taken();
    assert!(most <= PLACES + OTHERS, "{most} connections at a time");
    // Bodies that are larger than may be, and that never end.
    let proper = whole.split_once("\r\n\r\n").unwrap().0;
    let length = proper
        .lines()
        .find(|line| line.starts_with("Content-Length"))
        .unwrap();
    for claim in ["Content-Length: 1073741824", "Transfer-Encoding: chunked"] {
        for _ in 0..8 {
            let mut stream = door.connect();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let claimed = proper.replace(length, claim);
            let mut sent = write!(stream, "{claimed}\r\n\r\n");
            let piece = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000));
            for _ in 0..32 {
                sent = sent.and_then(|()| stream.write_all(piece.as_bytes()));
            }
            let mut told = [0; 12];
            // It may be cut off before its answer is seen.
            if stream.read_exact(&mut told).is_ok() {
                assert_eq!(&told, b"HTTP/1.1 413", "{claim}");
            } else {
                assert!(sent.is_err(), "{claim}: all of it was taken");
            }
            held.push(stream);
        }
    }
    assert_peak(&server.process, "half requests", MAX_PEAK_IDLE_KIB);
    serves_and_ends(server);
    drop(held);
}
