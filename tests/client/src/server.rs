//! A server and its client, which speaks to it through pipes or over HTTP.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write as _},
    net::{Shutdown, TcpStream},
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    PATIENCE, Process,
    http::{self, Door, LEGACY},
    left,
};

/// A server process, and whoever asks it.
#[derive(Debug)]
pub struct Server {
    /// The server's process.
    pub process: Process,
    state: PathBuf,
    way: Way,
    answers: Receiver<Value>,
    /// Answers that came before they were asked for.
    early: HashMap<u64, Value>,
    last_id: u64,
}

/// How the client speaks to it.
#[derive(Debug)]
enum Way {
    /// Until the input is ended.
    Pipes(Option<ChildStdin>),
    Http {
        door: Door,
        answered: Sender<Value>,
        /// Connections on which an answer is waited for: who hangs up takes the call back.
        open: HashMap<u64, TcpStream>,
    },
}

impl Server {
    /// Starts a server that speaks on its standard input and output, and greets it.
    pub fn on_pipes(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command).unwrap();
        let output = BufReader::new(process.child().stdout.take().unwrap());
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    Ok(message) => drop(sender.send(message)),
                    // Only the last line of a server that was killed need not be whole.
                    Err(error) if error.is_eof() => return,
                    Err(error) => panic!("standard output has {line:?}: {error}"),
                }
            }
        });
        let input = process.child().stdin.take();
        let mut server = Self::new(command, process, Way::Pipes(input), answers);
        let hello = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        server.ask("initialize", &hello);
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    /// Starts a server that speaks HTTP, on a port that the system chooses, with this token. What it logs is lost.
    pub fn over_http(command: &mut Command, token: &str) -> Self {
        command
            .args(["serve", "--http", "127.0.0.1:0"])
            .env("BELLJAR_HTTP_TOKEN", token)
            // At its end from the start, which means nothing here.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = Process::start(command).unwrap();
        let mut said = BufReader::new(process.child().stderr.take().unwrap());
        let addr = address(&mut said);
        thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let (answered, answers) = channel();
        let door = Door {
            addr: addr.parse().unwrap(),
            token: token.to_owned(),
        };
        let way = Way::Http {
            door,
            answered,
            open: HashMap::new(),
        };
        Self::new(command, process, way, answers)
    }

    fn new(command: &Command, process: Process, way: Way, answers: Receiver<Value>) -> Self {
        let mut settings = command.get_envs();
        let state =
            settings.find_map(|(name, value)| value.filter(|_| name == "BELLJAR_STATE_DIR"));
        Self {
            process,
            state: state.expect("a state directory of its own").into(),
            way,
            answers,
            early: HashMap::new(),
            last_id: 0,
        }
    }

    /// Its state directory.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The lines of its record so far.
    #[must_use]
    pub fn audit(&self) -> Vec<Value> {
        left::audit(&self.state)
    }

    /// What it calls itself in names of containers, where it is the first of its state directory.
    #[must_use]
    pub fn instance(&self) -> String {
        self.audit()[0]["instance"].as_str().unwrap().to_owned()
    }

    /// Where it listens.
    ///
    /// # Panics
    /// Where it speaks through pipes.
    #[must_use]
    pub fn door(&self) -> &Door {
        match &self.way {
            Way::Http { door, .. } => door,
            Way::Pipes(_) => panic!("it has pipes"),
        }
    }

    /// Writes a line, or posts it. A server that is gone takes none: who waits for an answer will see it.
    fn send(&mut self, message: &Value) {
        match &mut self.way {
            Way::Pipes(Some(input)) => {
                let _ = writeln!(input, "{message}").and_then(|()| input.flush());
            }
            Way::Pipes(None) => {}
            Way::Http {
                door,
                answered,
                open,
            } => {
                let id = message["id"].as_u64().expect("requests only");
                let method = message["method"].as_str().unwrap();
                let text = door.ask(id, method, message["params"].clone());
                let Ok(stream) = door.begin(&text) else {
                    return;
                };
                if let Ok(copy) = stream.try_clone() {
                    open.insert(id, copy);
                }
                let answered = answered.clone();
                thread::spawn(move || {
                    let reply = http::reply(&stream);
                    if let Some(message) = reply.and_then(|reply| reply.message(id)) {
                        let _ = answered.send(message);
                    }
                });
            }
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.answer(id, PATIENCE).expect("an answer")
    }

    /// Begins a tool call.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Takes a call back. Over HTTP that is to hang up.
    pub fn cancel(&mut self, id: u64) {
        if let Way::Http { open, .. } = &mut self.way {
            if let Some(stream) = open.remove(&id) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            return;
        }
        let params = json!({"requestId": id, "reason": "test"});
        self.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
    }

    /// The next answer to whatever was asked, if there is one in this time. A server that is gone has none, and is not
    /// waited for.
    pub fn next_answer(&mut self, limit: Duration) -> Option<(u64, Value)> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left).ok()?;
            if let Some(id) = answer["id"].as_u64() {
                if let Way::Http { open, .. } = &mut self.way {
                    open.remove(&id);
                }
                return Some((id, answer["result"].clone()));
            }
        }
    }

    /// The answer to a call, if it comes in time.
    pub fn answer(&mut self, id: u64, limit: Duration) -> Option<Value> {
        let end = Instant::now() + limit;
        loop {
            if let Some(result) = self.early.remove(&id) {
                return Some(result);
            }
            let (other, result) =
                self.next_answer(end.saturating_duration_since(Instant::now()))?;
            self.early.insert(other, result);
        }
    }

    /// Calls a tool and waits for its result at most so long.
    pub fn tool(&mut self, tool: &str, arguments: &Value, limit: Duration) -> Option<Value> {
        let id = self.begin(tool, arguments);
        self.answer(id, limit)
    }

    /// Calls a tool that must succeed; its structured result.
    pub fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.tool(tool, arguments, PATIENCE).expect("an answer");
        assert_eq!(result["isError"], false, "{tool} {arguments}: {result}");
        result["structuredContent"].clone()
    }

    /// A run that finds everything in order; what is wrong otherwise.
    pub fn works(&mut self, limit: Duration) -> Result<(), String> {
        let run = json!({"language": "bash", "code": "echo here"});
        let result = self.tool("run_code", &run, limit).ok_or("no answer")?;
        if result["structuredContent"]["stdout"]["text"] == "here\n" {
            Ok(())
        } else {
            Err(said(&result))
        }
    }

    /// Tells it to end in good order.
    pub fn hang_up(&mut self) {
        match &mut self.way {
            Way::Pipes(input) => *input = None,
            Way::Http { .. } => self.process.signal("TERM"),
        }
    }

    /// The same, and waits for it; how it ended.
    pub fn close(&mut self) -> Option<i32> {
        self.hang_up();
        self.process.ended()
    }
}

/// Where a server says that it listens.
fn address(said: &mut impl BufRead) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it has ended");
        let address = line.strip_prefix("belljar: MCP at http://");
        if let Some(address) = address.and_then(|rest| rest.trim_end().strip_suffix("/mcp")) {
            return address.to_owned();
        }
    }
}

/// The text of a result.
#[must_use]
pub fn said(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str();
    text.map_or_else(|| result.to_string(), str::to_owned)
}
