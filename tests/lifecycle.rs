//! The program itself, as a client starts and stops it, on a real Docker daemon. Without one, or without the image
//! `belljar/bash:latest`, these tests fail, and say so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]
#![cfg(unix)]

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// How long anything may take before a test gives up. No test measures time.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server process and the client at the other end of its pipes.
struct Server {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<Value>,
    last_id: u64,
}

impl Server {
    fn start(state: &Path) -> Self {
        Self::with(state, "")
    }

    fn with(state: &Path, config: &str) -> Self {
        // No argument: a client that holds the other end of standard input wants a server.
        let mut process = configured(state, config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line);
                let message: Value = message.expect("only protocol messages on standard output");
                let _ = sender.send(message);
            }
        });
        let input = process.stdin.take();
        let mut server = Self {
            process,
            input,
            answers,
            last_id: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "lifecycle", "version": "1"},
        });
        server.ask("initialize", &hello);
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn begin(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.begin(method, params);
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).expect("an answer");
            if answer["id"] == self.last_id {
                return answer["result"].clone();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    fn works(&mut self) {
        let result = self.call(
            "run_code",
            &json!({"language": "bash", "code": "echo here"}),
        );
        assert_eq!(result["stdout"]["text"], "here\n", "{result}");
    }

    /// A session, and a run that goes on: all that a server can leave behind.
    fn be_busy(&mut self, state: &Path) {
        self.call("open_session", &json!({"language": "bash"}));
        let code = "echo before; sleep 300";
        let run = json!({"language": "bash", "code": code, "timeout_seconds": 300});
        self.begin("tools/call", &json!({"name": "run_code", "arguments": run}));
        until("both containers run", || running(state).len() >= 2);
        // Past what it prints: a busy machine may take long between the container's start and the program's.
        let sleeps = |name: &String| {
            let processes = Command::new("docker").args(["top", name]).output();
            String::from_utf8_lossy(&processes.unwrap().stdout).contains("sleep 300")
        };
        until("the program sleeps", || running(state).iter().any(sleeps));
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    fn exit_code(&mut self) -> Option<i32> {
        let mut code = None;
        until("the server ends", || {
            let status = self.process.try_wait().unwrap();
            code = status.and_then(|status| status.code());
            status.is_some()
        });
        code
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In good order: what a killed server leaves would wait for another one of the same state directory.
        self.input = None;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn belljar(state: &Path) -> Command {
    configured(state, "")
}

fn configured(state: &Path, text: &str) -> Command {
    let config = state.join("belljar.toml");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .env("BELLJAR_STATE_DIR", state)
        .env("BELLJAR_CONFIG", config);
    command
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Containers of the servers of one state directory, as the daemon lists them.
fn containers(instances: &BTreeSet<String>, list: &[&str]) -> BTreeSet<String> {
    let listed = Command::new("docker")
        .args(list)
        .output()
        .expect("the docker command");
    assert!(
        listed.status.success(),
        "these tests need a Docker daemon: {listed:?}"
    );
    let names = String::from_utf8(listed.stdout).unwrap();
    let ours = |name: &&str| {
        instances
            .iter()
            .any(|instance| name.contains(instance.as_str()))
    };
    names.lines().filter(ours).map(str::to_owned).collect()
}

fn running(state: &Path) -> BTreeSet<String> {
    containers(&instances(state), &["ps", "--format", "{{.Names}}"])
}

/// The instances that have a file.
fn instances(state: &Path) -> BTreeSet<String> {
    // There is none before the first server has begun.
    let files = std::fs::read_dir(state.join("instances"))
        .into_iter()
        .flatten();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter_map(|name| name.strip_suffix(".lock").map(str::to_owned))
        .collect()
}

const ALL: [&str; 4] = ["ps", "--all", "--format", "{{.Names}}"];

#[test]
fn every_orderly_end_leaves_no_container_and_no_instance() {
    for end in ["end of input", "TERM", "INT", "HUP"] {
        let state = tempfile::tempdir().unwrap();
        let mut server = Server::start(state.path());
        server.works();
        server.be_busy(state.path());
        let ours = instances(state.path());
        assert_eq!(ours.len(), 1, "{end}");
        match end {
            "end of input" => server.input = None,
            signal => {
                server.signal(signal);
                let answer = server.answers.recv_timeout(PATIENCE).expect("an answer");
                assert_eq!(answer["id"], server.last_id, "{answer}");
                let result = &answer["result"]["structuredContent"];
                assert_eq!(result["status"], "cancelled", "{answer}");
                assert_eq!(result["stdout"]["text"], "before\n", "{answer}");
            }
        }
        assert_eq!(server.exit_code(), Some(0), "{end}");
        assert_eq!(containers(&ours, &ALL), BTreeSet::new(), "{end}");
        assert_eq!(instances(state.path()), BTreeSet::new(), "{end}");
    }
}

#[test]
fn over_http_a_signal_ends_it_and_leaves_no_container() {
    for end in ["TERM", "INT"] {
        let state = tempfile::tempdir().unwrap();
        // Its standard input is at its end from the start, which means nothing here.
        let mut process = belljar(state.path())
            .args(["serve", "--http", "127.0.0.1:0"])
            .env_remove("BELLJAR_HTTP_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut word = |before: &str| {
            let mut lines = said.by_ref().map_while(Result::ok);
            let word = lines.find_map(|line| line.strip_prefix(before).map(str::to_owned));
            word.expect("what it says at its start")
        };
        let address = word("belljar: MCP at http://");
        let address = address.strip_suffix("/mcp").unwrap();
        let token = word("belljar: token: ");
        thread::spawn(move || said.for_each(drop));
        let mut server = Server {
            process,
            input: None,
            answers: channel().1,
            last_id: 0,
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_code",
            "arguments": {"language": "bash", "code": "sleep 300", "timeout_seconds": 300},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "lifecycle", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }})
        .to_string();
        let mut client = TcpStream::connect(address).unwrap();
        write!(
            client,
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: run_code\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        until("its container runs", || !running(state.path()).is_empty());
        let ours = instances(state.path());
        server.signal(end);
        assert_eq!(server.exit_code(), Some(0), "{end}");
        assert_eq!(containers(&ours, &ALL), BTreeSet::new(), "{end}");
        assert_eq!(instances(state.path()), BTreeSet::new(), "{end}");
    }
}

#[test]
fn a_killed_server_leaves_nothing_running_and_the_next_one_removes_the_rest() {
    let state = tempfile::tempdir().unwrap();
    let mut first = Server::start(state.path());
    first.be_busy(state.path());
    let ours = instances(state.path());
    first.signal("KILL");
    first.exit_code();
    until("nothing runs on", || {
        containers(&ours, &ALL[..1]).is_empty()
    });
    let mut second = Server::start(state.path());
    second.works();
    until("the rest is removed", || containers(&ours, &ALL).is_empty());
}

#[test]
fn a_server_that_is_killed_while_its_pool_fills_leaves_nothing() {
    // As the first ones are made, and when some wait already.
    for made in [1, 4] {
        let state = tempfile::tempdir().unwrap();
        let mut first = Server::with(state.path(), "[pool]\nmax = 6\nmin = 6\n");
        first.works();
        let ours = instances(state.path());
        until("the pool fills", || containers(&ours, &ALL).len() >= made);
        first.signal("KILL");
        first.exit_code();
        until("nothing runs on", || {
            containers(&ours, &ALL[..1]).is_empty()
        });
        let mut second = Server::start(state.path());
        second.works();
        until("the rest is removed", || containers(&ours, &ALL).is_empty());
    }
}

#[test]
fn two_servers_of_one_state_directory_leave_each_other_alone() {
    let state = tempfile::tempdir().unwrap();
    let mut first = Server::start(state.path());
    let session = first.call("open_session", &json!({"language": "bash"}));
    let before = instances(state.path());
    let mut second = Server::start(state.path());
    second.works();
    second.input = None;
    assert_eq!(second.exit_code(), Some(0));
    let reaped = belljar(state.path()).arg("reap").status().unwrap();
    assert!(reaped.success());
    assert_eq!(instances(state.path()), before);
    let arguments = json!({
        "language": "bash", "code": "echo here", "session": session["session"],
    });
    let result = first.call("run_code", &arguments);
    assert_eq!(result["stdout"]["text"], "here\n");
}

#[test]
fn what_one_server_kept_the_next_one_has() {
    let state = tempfile::tempdir().unwrap();
    let mut first = Server::start(state.path());
    let code = "printf kept >result.txt";
    let result = first.call("run_code", &json!({"language": "bash", "code": code}));
    first.input = None;
    assert_eq!(first.exit_code(), Some(0));
    let mut second = Server::start(state.path());
    let id = &result["artifacts"][0]["artifact_id"];
    let fetched = second.call("fetch_artifact", &json!({"artifact_id": id}));
    assert_eq!(fetched["text"], "kept");

    let show = belljar(state.path())
        .args(["audit", "show", result["run_id"].as_str().unwrap()])
        .output()
        .unwrap();
    let shown = String::from_utf8(show.stdout).unwrap();
    assert!(show.status.success() && shown.contains(code), "{shown}");
    assert!(
        belljar(state.path())
            .args(["audit", "verify"])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_client_that_does_not_read_holds_nothing_up() {
    for end in ["end of input", "TERM"] {
        let state = tempfile::tempdir().unwrap();
        let mut process = belljar(state.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = process.stdin.take();
        let mut lines = vec![
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
            }}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "open_session", "arguments": {"language": "bash"},
            }}),
        ];
        // More answers than any pipe holds.
        lines
            .extend((3..400).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})));
        for line in lines {
            writeln!(input.as_mut().unwrap(), "{line}").unwrap();
        }
        until("a session runs", || !running(state.path()).is_empty());
        let ours = instances(state.path());
        match end {
            "end of input" => input = None,
            signal => {
                let pid = process.id().to_string();
                assert!(
                    Command::new("kill")
                        .args(["-s", signal, &pid])
                        .status()
                        .unwrap()
                        .success()
                );
            }
        }
        until("the server ends", || process.try_wait().unwrap().is_some());
        assert_eq!(containers(&ours, &ALL), BTreeSet::new(), "{end}");
        drop(input);
    }
}

#[test]
fn the_container_of_a_run_bears_the_runs_id() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Server::start(state.path());
    let run = json!({"language": "bash", "code": "sleep 2"});
    server.begin("tools/call", &json!({"name": "run_code", "arguments": run}));
    let label = [
        "ps",
        "--format",
        "{{.Names}} {{.Label \"belljar.session\"}}",
    ];
    let mut found = BTreeSet::new();
    until("its container runs", || {
        found = containers(&instances(state.path()), &label);
        !found.is_empty()
    });
    let answer = server.answers.recv_timeout(PATIENCE).expect("an answer");
    let id = answer["result"]["structuredContent"]["run_id"]
        .as_str()
        .unwrap();
    assert!(
        found.iter().any(|line| line.ends_with(id)),
        "{found:?} {id}"
    );
}

#[test]
fn people_get_the_programs_output_and_its_exit_status() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("program.sh");
    std::fs::write(&file, "echo \"out $1\"; echo err >&2; exit 3").unwrap();
    let run = belljar(state.path())
        .args(["run", "bash", file.to_str().unwrap(), "--", "put"])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(3), "{run:?}");
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "out put\n");
    assert!(String::from_utf8(run.stderr).unwrap().contains("err\n"));
}

#[test]
fn an_image_of_the_operators_runs_as_it_is() {
    let state = tempfile::tempdir().unwrap();
    let mut run = belljar(state.path());
    // The base of the built-in images, which has nothing of belljar's in it: no accounts, no open folders.
    let language = "[[language]]\nname = \"dash\"\nimage = \"debian:trixie-slim\"\nprogram = \".main.sh\"\n\
                    command = [\"sh\", \"{program}\"]\n";
    std::fs::write(state.path().join("belljar.toml"), language).unwrap();
    let file = state.path().join("program.sh");
    std::fs::write(&file, "echo x >kept; cat /etc/debian_version kept; id -u").unwrap();
    let run = run
        .args(["run", "dash", file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8(run.stdout.clone()).unwrap();
    assert!(run.status.success(), "{run:?}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("13"), "{said}");
    assert_eq!(lines[1], "x");
    let uid: u32 = lines[2].parse().unwrap();
    assert!((52_000..=54_047).contains(&uid), "{said}");
}

#[test]
fn the_doctor_is_content_with_a_machine_on_which_the_tests_run() {
    let state = tempfile::tempdir().unwrap();
    let doctor = belljar(state.path()).arg("doctor").output().unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.status.success(), "{said}");
    for check in [
        "daemon",
        "cgroups",
        "seccomp",
        "runtime",
        "image",
        "guest volume",
        "disk",
        "trial run",
    ] {
        assert!(said.contains(check), "{check}: {said}");
    }
}

#[test]
fn a_configuration_that_is_wrong_does_not_keep_the_doctor_from_the_rest() {
    let state = tempfile::tempdir().unwrap();
    let doctor = configured(state.path(), "[pool]\nmax = 100000\n")
        .arg("doctor")
        .output()
        .unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(1), "{said}");
    for check in [
        "configuration",
        "pool.max",
        "mend the file",
        "daemon",
        "runc",
    ] {
        assert!(said.contains(check), "{check}: {said}");
    }
}

#[test]
fn without_a_daemon_the_doctor_fails_and_says_what_to_do() {
    let state = tempfile::tempdir().unwrap();
    let doctor = belljar(state.path())
        .arg("doctor")
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .output()
        .unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(1), "{said}");
    assert!(
        said.contains("FAILURE") && said.contains("start Docker"),
        "{said}"
    );
}
