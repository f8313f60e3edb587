//! A server process of the test's own, the client at its pipes, and what it leaves behind.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::clock::Clock;

/// How long anything may take that no deadline is about, on a machine that has too much to do.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A server and its client.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<Value>,
    /// Answers that came before they were asked for.
    early: HashMap<u64, Value>,
    last_id: u64,
    state: PathBuf,
}

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    /// Its state directory.
    pub(crate) state: &'a Path,
    /// Where its configuration and its log go.
    pub(crate) beside: &'a Path,
    /// The socket of its daemon.
    pub(crate) docker: &'a Path,
    /// Its configuration.
    pub(crate) config: &'a str,
    /// How many files it may have open at a time.
    pub(crate) files: Option<u32>,
    /// Another wall clock than the machine's.
    pub(crate) clock: Option<&'a Clock>,
}

impl Server {
    pub(crate) fn start(setup: Setup<'_>) -> Self {
        let mut command = belljar(setup);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(setup.beside.join("log")).unwrap());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line);
                let message: Value = message.expect("only protocol messages on standard output");
                let _ = sender.send(message);
            }
        });
        let mut server = Self {
            input: process.stdin.take(),
            process,
            answers,
            early: HashMap::new(),
            last_id: 0,
            state: setup.state.to_owned(),
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "faults", "version": "1"},
        });
        let id = server.begin("initialize", &hello);
        server.answer(id, PATIENCE).expect("a greeting");
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Begins a tool call.
    pub(crate) fn begin_tool(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.begin("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// The answer to a call, if it comes in time.
    pub(crate) fn answer(&mut self, id: u64, limit: Duration) -> Option<Value> {
        let end = Instant::now() + limit;
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return Some(answer["result"].clone());
            }
            let left = end.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left).ok()?;
            if let Some(id) = answer["id"].as_u64() {
                self.early.insert(id, answer);
            }
        }
    }

    /// Calls a tool and waits for its answer at most so long.
    pub(crate) fn tool(&mut self, tool: &str, arguments: &Value, limit: Duration) -> Option<Value> {
        let id = self.begin_tool(tool, arguments);
        self.answer(id, limit)
    }

    /// Calls a tool that must succeed; its structured result.
    pub(crate) fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.tool(tool, arguments, PATIENCE).expect("an answer");
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// A run that finds everything in order; what is wrong otherwise.
    pub(crate) fn works(&mut self, limit: Duration) -> Result<(), String> {
        let run = json!({"language": "bash", "code": "echo here"});
        let result = self.tool("run_code", &run, limit).ok_or("no answer")?;
        if result["structuredContent"]["stdout"]["text"] == "here\n" {
            Ok(())
        } else {
            Err(said(&result))
        }
    }

    /// How many files it has open.
    pub(crate) fn open_files(&self) -> usize {
        let files = format!("/proc/{}/fd", self.process.id());
        std::fs::read_dir(files).unwrap().count()
    }

    /// The lines of its audit log so far.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        for file in std::fs::read_dir(self.state.join("audit")).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
        }
        lines
    }

    /// The server's instance, in the names of its containers.
    pub(crate) fn instance(&self) -> String {
        self.audit()[0]["instance"].as_str().unwrap().to_owned()
    }

    /// Ends its input; how it ended.
    pub(crate) fn close(&mut self) -> Option<i32> {
        self.input = None;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program with the same settings, for another command or as the server.
pub(crate) fn belljar(setup: Setup<'_>) -> Command {
    let config = setup.beside.join("belljar.toml");
    std::fs::write(&config, setup.config).unwrap();
    let program = env!("CARGO_BIN_EXE_belljar");
    let mut command = match setup.files {
        None => Command::new(program),
        Some(files) => {
            let mut shell = Command::new("sh");
            // Both limits: the server raises the soft one to the hard one.
            let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
            shell.args(["-c", &script, program]);
            shell
        }
    };
    command
        .env("BELLJAR_STATE_DIR", setup.state)
        .env("BELLJAR_CONFIG", config)
        .env("BELLJAR_LOG", "belljar=debug")
        .env("DOCKER_HOST", format!("unix://{}", setup.docker.display()));
    if let Some(clock) = setup.clock {
        clock.lend(&mut command);
    }
    command
}

/// Whether the chain of every log of this state directory holds.
pub(crate) fn verify(setup: Setup<'_>) -> Result<(), String> {
    let done = belljar(setup).args(["audit", "verify"]).output().unwrap();
    if done.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

/// The text of a result.
pub(crate) fn said(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str();
    text.map_or_else(|| result.to_string(), str::to_owned)
}

/// Waits until something holds; whether it did in time.
pub(crate) fn until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(50));
    }
}
