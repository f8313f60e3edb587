//! Clients at the pipes.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use belljar::transport::stdio::{MAX_LINE_BYTES, MAX_UNREAD_BYTES};
use belljar_test_client::{Process, left};
use serde_json::{Value, json};

use crate::{assert_peak, command, until};

/// The most memory that the server may ever have held for a client that does not read, in KiB: what it has anyway, the
/// answers that may lie unread, and those of calls that were under way.
const MAX_PEAK_UNREAD_KIB: u64 = 160 * 1024;
/// The same for a client that writes lines as large as it likes: one line of the largest, and what it is read into.
const MAX_PEAK_LINE_KIB: u64 = 320 * 1024;

/// The same for programs that print without measure: what it has anyway, and the window and buffers of one run.
const MAX_PEAK_PRINT_KIB: u64 = 96 * 1024;

/// A server process whose answers are read when the test says so, or never.
struct Server {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    state: PathBuf,
}

impl Server {
    fn start(state: &Path) -> Self {
        let mut process = Process::start(
            command(state)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        )
        .unwrap();
        let mut server = Self {
            input: process.child().stdin.take().unwrap(),
            output: BufReader::new(process.child().stdout.take().unwrap()),
            process,
            state: state.to_owned(),
        };
        server.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "clumsy", "version": "0"},
        }}));
        server.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(server.next()["id"], 0);
        server
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(
            self.output.read_line(&mut line).unwrap() > 0,
            "the server is there"
        );
        serde_json::from_str(&line).unwrap()
    }

    fn pings(&mut self) {
        self.say(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}));
        while self.next()["id"] != "ping" {}
    }

    #[track_caller]
    fn assert_peak(&self, what: &str, most: u64) {
        assert_peak(&self.process, what, most);
    }

    /// How many lines of one action its log has.
    fn recorded(&self, action: &str) -> usize {
        left::recorded(&self.state, action).len()
    }
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn run(id: u64, code: &str) -> Value {
    // On a machine that is busy with other things a program may take long.
    let arguments = json!({"language": "bash", "code": code, "timeout_seconds": 300});
    request(
        id,
        "tools/call",
        &json!({"name": "run_code", "arguments": arguments}),
    )
}

#[test]
fn ten_thousand_requests_that_nobody_reads_the_answers_of_cost_little() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Server::start(state.path());
    for id in 1..=10_000 {
        let message = match id % 10 {
            0 => request(
                id,
                "tools/call",
                &json!({"name": "list_files", "arguments": {"session": "none"}}),
            ),
            1 if id % 1000 == 1 => run(id, "echo here"),
            2 => request(id, "no/such", &json!({})),
            3 => json!({"jsonrpc": "2.0", "id": id}),
            _ => request(id, "ping", &json!({})),
        };
        server.say(&message);
    }
    until("the runs end", || server.recorded("run_code") == 10);
    server.assert_peak("10,000 requests", MAX_PEAK_UNREAD_KIB);
    // All of the answers are there for who reads them late.
    for _ in 1..=10_000 {
        let answer = server.next();
        assert!(answer["id"].is_u64(), "{answer}");
    }
    server.pings();
}

/// Requests that a pipe holds, and the server to see whether the input has ended: some 300 KiB of them.
const BESIDE: usize = 10_000;

#[test]
fn a_client_that_only_ever_asks_is_read_no_further_than_the_bound() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Server::start(state.path());
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    // The writing end moves to a thread that gets stuck in it, and ends with the server.
    let mut pipe = std::mem::replace(&mut server.input, closed());
    let writing = thread::spawn(move || {
        for id in 1..100_000 {
            if writeln!(pipe, "{}", request(id, "tools/list", &json!({}))).is_err() {
                return;
            }
            count.store(id, Ordering::Release);
        }
    });
    // It is stuck once nothing has been written for a while; if it is not yet, the bound holds as well.
    let (mut last, mut since) = (0, Instant::now());
    until("the client is stuck", || {
        let now = written.load(Ordering::Acquire);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        now > 0 && since.elapsed() > Duration::from_secs(5)
    });
    server.assert_peak("lists that nobody reads", MAX_PEAK_UNREAD_KIB);
    let answer = server.next().to_string().len();
    let most = MAX_UNREAD_BYTES / answer + BESIDE;
    assert!(written.load(Ordering::Acquire) < most as u64);
    drop(server);
    writing.join().unwrap();
}

/// Standard input of something that does not matter.
fn closed() -> ChildStdin {
    let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    child.wait().unwrap();
    input
}

#[test]
fn a_container_that_floods_is_not_held_up_by_a_client_that_does_not_read() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Server::start(state.path());
    for id in 1..400 {
        server.say(&request(id, "tools/list", &json!({})));
    }
    for id in 1000..1008 {
        server.say(&run(
            id,
            "yes 'a line of a flood' | head -c 4000000; echo end >&2",
        ));
    }
    until("the runs end", || server.recorded("run_code") == 8);
    server.assert_peak("eight floods", MAX_PEAK_UNREAD_KIB);
    let mut ended = 0;
    while ended < 8 {
        let answer = server.next();
        if answer["id"].as_u64() >= Some(1000) {
            ended += 1;
            let run = &answer["result"]["structuredContent"];
            assert_eq!(run["status"], "exited", "{answer:.2000}");
            assert_eq!(run["stdout"]["bytes"], 4_000_000);
            assert_eq!(run["stderr"]["text"], "end\n");
        }
    }
    server.pings();
}

#[test]
fn lines_of_any_size_and_shape_cost_no_more_than_the_largest_that_may_be() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Server::start(state.path());
    let piece = |text: &str| text.repeat((1 << 20) / text.len());
    for (what, open, piece, close) in [
        ("no end", "{\"id\":1,\"x\":\"", piece("x"), "\"}"),
        ("escapes", "{\"id\":1,\"x\":\"", piece("\\u0001"), "\"}"),
        ("empty lists", "{\"id\":1,\"x\":[[]", piece(",[]"), "]}"),
        ("numbers", "{\"id\":1,\"x\":[0", piece(",0"), "]}"),
        ("objects", "{\"id\":1,\"x\":[{}", piece(",{\"a\":1}"), "]}"),
        ("depth", "{\"id\":1,\"x\":", piece("["), ""),
        ("noise", "", piece("\u{1}\u{2}"), ""),
    ] {
        // As long as may be, and twice that.
        for times in [1, 2] {
            server.input.write_all(open.as_bytes()).unwrap();
            for _ in 0..times * (MAX_LINE_BYTES >> 20) - 1 {
                server.input.write_all(piece.as_bytes()).unwrap();
            }
            writeln!(server.input, "{close}").unwrap();
            let answer = server.next();
            assert!(answer["error"]["code"].is_i64(), "{what}: {answer:.300}");
        }
        server.assert_peak(what, MAX_PEAK_LINE_KIB);
    }
    // What is small on the wire and large in memory, and just about may be.
    let heavy = vec![json!({"": 0}); 70_000];
    for (id, method) in ["no/such", "tools/list", "ping"].into_iter().enumerate() {
        server.say(&request(id as u64, method, &json!({"heavy": heavy})));
        assert_eq!(server.next()["id"], id as u64, "{method}");
    }
    for id in 10..14 {
        let arguments = json!({"language": "bash", "code": "sleep 1"});
        let params = json!({"name": "run_code", "arguments": arguments, "_meta": {"heavy": heavy}});
        server.say(&request(id, "tools/call", &params));
    }
    for _ in 10..14 {
        server.next();
    }
    server.assert_peak("heavy messages", MAX_PEAK_LINE_KIB);
    server.pings();
}

#[test]
fn programs_that_print_without_measure_cost_little_and_are_counted() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Server::start(state.path());
    let lines = "head -c 1073741824 /dev/zero | tr '\\0' '\\n'";
    let no_end = "head -c 104857600 /dev/zero | tr '\\0' x";
    let tiny = "dd if=/dev/zero bs=1 count=1000000 status=none";
    for (what, code, output_kib, status, bytes) in [
        ("1 GiB", lines, 16 << 10, "output_limit", 16 << 20),
        ("no end of a line", no_end, 256 << 10, "exited", 104_857_600),
        ("a million writes", tiny, 16 << 10, "exited", 1_000_000),
    ] {
        let mut call = run(1, code);
        call["params"]["arguments"]["limits"] = json!({"output_kib": output_kib});
        server.say(&call);
        let answer = server.next();
        let told = &answer["result"]["structuredContent"];
        assert_eq!(told["status"], status, "{what}: {answer:.1000}");
        assert_eq!(told["stdout"]["bytes"], bytes, "{what}: {answer:.1000}");
        server.assert_peak(what, MAX_PEAK_PRINT_KIB);
    }
    server.pings();
}
