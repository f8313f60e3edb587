//! belljar as a client sees it: the built server as a child process, MCP on its standard input and output, any
//! number of calls in flight.
//!
//! Never uses the library: what is timed is what a client waits for.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::{machine, program::Program, stats::Ran};

/// The longest that a call may take, also one that moves a gibibyte on a busy machine.
const CALL_DEADLINE: Duration = Duration::from_mins(3);
/// How long a server may take to end after its input has; then it is killed.
const END_DEADLINE: Duration = Duration::from_secs(30);

/// Where a result says where the time of its run went.
const STAGES: &str = "belljar/stages_ms";

type Waiting = Arc<Mutex<HashMap<u64, Sender<Value>>>>;

/// A running server with a state directory of its own.
pub(crate) struct Server {
    process: Child,
    input: Mutex<Option<ChildStdin>>,
    waiting: Waiting,
    id: AtomicU64,
    state: tempfile::TempDir,
}

/// A lock whose holder panicked is as good as another: what it guards is never left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts a server with this configuration file and these further arguments of `serve`, and opens the protocol.
    pub(crate) fn start(config: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let state = tempfile::tempdir().context("make a state directory")?;
        let file = state.path().join("belljar.toml");
        fs::write(&file, config).context("write the configuration")?;
        let log = File::create(state.path().join("stderr")).context("make the log")?;
        let mut process = Command::new(machine::SERVER)
            .arg("serve")
            .args(arguments)
            .env("BELLJAR_STATE_DIR", state.path())
            .env("BELLJAR_CONFIG", file)
            .env("BELLJAR_LOG", "warn")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("start the server")?;
        let input = Mutex::new(process.stdin.take());
        let output = process.stdout.take().context("the server's output")?;
        let waiting = Waiting::default();
        let answers = Arc::clone(&waiting);
        thread::spawn(move || hand_out(output, &answers));
        let server = Self {
            process,
            input,
            waiting,
            id: AtomicU64::new(1),
            state,
        };
        server.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }),
        )?;
        server.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(server)
    }

    fn write(&self, line: &str) -> anyhow::Result<()> {
        let mut input = lock(&self.input);
        let input = input.as_mut().context("the server's input has ended")?;
        // In one piece: many threads write here.
        input
            .write_all(format!("{line}\n").as_bytes())
            .context("write to the server")
    }

    fn ask(&self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let id = self.id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered): (_, Receiver<Value>) = channel();
        lock(&self.waiting).insert(id, answer);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&request.to_string())?;
        let answer = answered.recv_timeout(CALL_DEADLINE).with_context(|| {
            lock(&self.waiting).remove(&id);
            format!("no answer to {method}; the server said: {}", self.said())
        })?;
        ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        Ok(answer["result"].clone())
    }

    /// The last line of the server's log.
    fn said(&self) -> String {
        let log = fs::read_to_string(self.state.path().join("stderr")).unwrap_or_default();
        log.lines().last().unwrap_or("nothing").to_owned()
    }

    /// Calls a tool and gives its structured result.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> anyhow::Result<Value> {
        Ok(self.result(tool, arguments)?["structuredContent"].take())
    }

    fn result(&self, tool: &str, arguments: &Value) -> anyhow::Result<Value> {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        ensure!(
            result["isError"] == false,
            "{tool}: {}",
            result["content"][0]["text"]
        );
        Ok(result)
    }

    /// Runs a program, in a fresh container or in a session, checks what it did and gives what a client waited
    /// for.
    pub(crate) fn run(&self, program: &Program, session: Option<&str>) -> anyhow::Result<Ran> {
        let mut arguments = json!({"language": program.language.name, "code": program.code});
        if let Some(session) = session {
            arguments["session"] = session.into();
        }
        let began = Instant::now();
        let answer = self.result("run_code", &arguments)?;
        let took = began.elapsed();
        let result = &answer["structuredContent"];
        let (status, text) = (&result["status"], &result["stdout"]["text"]);
        ensure!(
            status == "exited" && text == program.prints,
            "the run ended as {status} and printed {text}; standard error: {}",
            result["stderr"]["text"]
        );
        let stages = answer["_meta"][STAGES].as_object().into_iter().flatten();
        Ok(Ran {
            took,
            stages: stages
                .filter_map(|(name, ms)| Some((name.clone(), ms.as_f64()?)))
                .collect(),
        })
    }

    /// Opens a session and gives its id.
    pub(crate) fn open_session(&self, language: &str) -> anyhow::Result<String> {
        let opened = self.call("open_session", &json!({ "language": language }))?;
        let session = opened["session"].as_str().context("a session's id")?;
        Ok(session.to_owned())
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The server's state directory.
    pub(crate) fn state(&self) -> &Path {
        self.state.path()
    }

    /// Ends the server's input and waits until it has cleaned up.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        drop(lock(&self.input).take());
        let began = Instant::now();
        while began.elapsed() < END_DEADLINE {
            if let Some(status) = self.process.try_wait().context("wait for the server")? {
                ensure!(status.success(), "the server ended with {status}");
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.process.kill().context("kill the server")?;
        self.process.wait().context("wait for the server")?;
        bail!(
            "the server did not end in {} s and was killed",
            END_DEADLINE.as_secs()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` this finds an ended process.
        if let Err(error) = self.end() {
            eprintln!("bench: {error:#}");
        }
    }
}

/// Gives each answer to whoever waits for it. Once the server's output has ended, nobody waits any more.
fn hand_out(output: ChildStdout, waiting: &Waiting) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { break };
        let Ok(answer) = serde_json::from_str::<Value>(&line) else {
            break;
        };
        let waits = answer["id"]
            .as_u64()
            .and_then(|id| lock(waiting).remove(&id));
        if let Some(waits) = waits {
            // Nobody there any more: it gave up.
            let _ = waits.send(answer);
        }
    }
    lock(waiting).clear();
}
