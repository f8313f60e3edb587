//! How long a client waits: for the server, for a run in a fresh sandbox, and for one in a session; side by side with
//! `docker run` and `docker exec` of the same image. `make bench` runs it on a release build and prints a table.
//!
//! Needs a Docker daemon and the built-in images. Rounds alternate between the candidates, so that a machine that
//! grows slow does so for all of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking, and its table is its output"
)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Rounds of every candidate.
const ROUNDS: usize = 20;
const IMAGE: &str = "belljar/python:latest";
const PROGRAM: &str = "print(1)";

/// The flags of `docker run` that come closest to what a sandbox is.
const HARDENED: [&str; 15] = [
    "--rm",
    "--network=none",
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--user=52007:52007",
    "--memory=512m",
    "--memory-swap=512m",
    "--pids-limit=128",
    "--cpus=1",
    "--tmpfs=/workspace:size=256m,exec",
    "--tmpfs=/tmp:size=64m",
    "--workdir=/workspace",
    "--log-driver=none",
    "--ipc=private",
];

struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Server {
    fn start() -> Self {
        let state = std::env::temp_dir().join(format!("belljar-bench-{}", std::process::id()));
        std::fs::create_dir_all(&state).unwrap();
        let config = state.join("belljar.toml");
        std::fs::write(&config, "").unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_belljar"))
            .arg("serve")
            .env("BELLJAR_STATE_DIR", &state)
            .env("BELLJAR_CONFIG", config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut server = Self {
            process,
            input,
            output,
            id: 0,
        };
        server.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }),
        );
        writeln!(
            server.input,
            r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
        )
        .unwrap();
        server
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the server ended"
            );
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.id {
                return answer["result"].clone();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    fn run(&mut self, session: Option<&Value>) {
        let mut arguments = json!({"language": "python", "code": PROGRAM});
        if let Some(session) = session {
            arguments["session"] = session.clone();
        }
        assert_eq!(self.call("run_code", &arguments)["stdout"]["text"], "1\n");
    }

    fn stop(self) {
        let Self {
            mut process,
            input,
            output,
            ..
        } = self;
        drop(input);
        drop(output);
        process.wait().unwrap();
    }
}

fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker")
        .args(arguments)
        .output()
        .expect("the docker command");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn timed(times: &mut Vec<Duration>, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    times.push(began.elapsed());
}

fn row(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |at: usize| times[at].as_secs_f64() * 1000.0;
    let last = times.len() - 1;
    println!(
        "| {name} | {:.1} | {:.1} | {:.1} |",
        ms(last / 2),
        ms(last * 95 / 100),
        ms(last)
    );
}

fn main() {
    // `cargo test --benches` runs it too, with this argument, and must not wait for it.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (mut start, mut fresh, mut again, mut run, mut exec) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let kept = docker(&[
        "run",
        "--detach",
        "--rm",
        "--network=none",
        IMAGE,
        "sleep",
        "600",
    ]);
    let mut server = Server::start();
    server.run(None);
    let session = server.call("open_session", &json!({"language": "python"}))["session"].clone();
    server.run(Some(&session));
    for _ in 0..ROUNDS {
        timed(&mut start, || Server::start().stop());
        timed(&mut fresh, || server.run(None));
        timed(&mut again, || server.run(Some(&session)));
        timed(&mut run, || {
            let arguments = [&["run"], &HARDENED[..], &[IMAGE, "python3", "-c", PROGRAM]].concat();
            assert_eq!(docker(&arguments), "1");
        });
        timed(&mut exec, || {
            assert_eq!(docker(&["exec", &kept, "python3", "-c", PROGRAM]), "1")
        });
    }
    server.stop();
    docker(&["kill", &kept]);
    println!("| {ROUNDS} rounds, python `{PROGRAM}` | p50 ms | p95 ms | max ms |");
    println!("|---|---|---|---|");
    row("server: start, `initialize`, end", start);
    row("belljar: fresh sandbox, over MCP", fresh);
    row("belljar: run in a session, over MCP", again);
    row("`docker run`, hardened flags", run);
    row("`docker exec` in a running container", exec);
}
