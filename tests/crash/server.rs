//! One server process and the client at the other end of its pipes.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// How long anything may take before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Server {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<Value>,
    /// What it calls itself in names of containers.
    pub(crate) instance: String,
    last_id: u64,
}

/// Waits until it holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until nothing of this kind is left.
pub(crate) fn until_none<T: std::fmt::Debug>(what: &str, left: impl Fn() -> BTreeSet<T>) {
    let end = Instant::now() + PATIENCE;
    loop {
        let still = left();
        if still.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "left for good: {what}: {still:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    /// Starts a server on this state directory and waits until it answers. `known` are the instances before it.
    pub(crate) fn start(state: &Path, folder: &Path, known: &BTreeSet<String>) -> Self {
        let mut process = command(state)
            .arg("serve")
            .arg("--allow-dir-rw")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The last line of a server that was killed need not be whole.
                if let Ok(message) = serde_json::from_str::<Value>(&line) {
                    let _ = sender.send(message);
                }
            }
        });
        let input = process.stdin.take();
        let mut server = Self {
            process,
            input,
            answers,
            instance: String::new(),
            last_id: 0,
        };
        let id = server.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "crash", "version": "1"},
            }),
        );
        server.wait_for(id);
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let all = super::world::instances(state);
        let new: Vec<_> = all.difference(known).cloned().collect();
        assert_eq!(new.len(), 1, "{new:?}");
        server.instance = new.into_iter().next().unwrap();
        server
    }

    /// Sends a line. A server that is gone takes none, which is no matter here.
    fn send(&mut self, message: &Value) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{message}").and_then(|()| input.flush());
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Begins a call; its answer comes with this id.
    pub(crate) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Takes a call back.
    pub(crate) fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id, "reason": "test"});
        self.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
    }

    /// The next answer, if there is one in this time.
    pub(crate) fn answer(&mut self, within: Duration) -> Option<(u64, Value)> {
        match self.answers.recv_timeout(within) {
            Ok(message) => {
                let id = message["id"].as_u64()?;
                Some((id, message["result"].clone()))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(within);
                None
            }
        }
    }

    fn wait_for(&mut self, id: u64) -> Value {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some((found, result)) = self.answer(Duration::from_millis(100))
                && found == id
            {
                return result;
            }
        }
        panic!("no answer from the server");
    }

    /// A call that must work.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        let result = self.wait_for(id);
        assert_eq!(result["isError"], false, "{tool} {arguments}: {result}");
        result["structuredContent"].clone()
    }

    /// Ends its input: the orderly way to stop it.
    pub(crate) fn hang_up(&mut self) {
        self.input = None;
    }

    /// The way that leaves it no time for anything.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops it in good order.
    pub(crate) fn stop(mut self) {
        self.hang_up();
        let mut code = None;
        until("the server ends", || {
            code = self.process.try_wait().unwrap();
            code.is_some()
        });
        assert!(code.unwrap().success(), "{code:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command of belljar's about this state directory.
pub(crate) fn command(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .env("BELLJAR_STATE_DIR", state)
        .env("BELLJAR_CONFIG", super::world::config(state));
    command
}
