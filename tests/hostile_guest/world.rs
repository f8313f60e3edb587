//! The real server, on the real daemon, behind the proxy: what the tests ask of it and measure.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

use belljar::{config::Environment, engine::guest_binary::Architecture};
use serde_json::{Value, json};

use crate::{
    liar::{self, docker},
    proxy::{self, Rules},
};

/// How long anything may take before a test gives up. No test measures time.
const PATIENCE: Duration = Duration::from_mins(2);
/// Digits of the part of a volume's name that is drawn.
const DRAWN: usize = 32;

pub(crate) struct World {
    state: tempfile::TempDir,
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<Value>,
    last_id: u64,
    rules: Arc<Mutex<Rules>>,
    /// What the server takes for the pointer to the guest's volume, and what it is.
    asked: String,
    ours: String,
    /// Where a server listens that never answers.
    pub(crate) server: String,
    /// Every volume that was made here.
    volumes: BTreeSet<String>,
}

impl World {
    pub(crate) fn new(more: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let (server, port) = silent();
        let config = state.path().join("belljar.toml");
        let text = format!(
            "{more}\n[egress.lab]\nallow = [\"http://plain.lab.test:{port}\"]\n\
             resolve = {{ \"plain.lab.test\" = [\"127.0.0.1\"] }}\nallow_private = [\"127.0.0.1/32\"]\n"
        );
        std::fs::write(&config, text).unwrap();
        let runtime = docker(&["info", "--format", "{{.DefaultRuntime}}"]).unwrap();
        let version = Architecture::parse(liar::architecture())
            .unwrap()
            .guest_version();
        let drawn = drawn();
        let name = |version: &str| format!("belljar-guest-{version}-{runtime}");
        let rules = Arc::new(Mutex::new(Rules::default()));
        let socket = state.path().join("docker.sock");
        proxy::start(&socket, daemon(), Arc::clone(&rules));
        let log = std::fs::File::create(state.path().join("log")).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_belljar"))
            .env("BELLJAR_STATE_DIR", state.path())
            .env("BELLJAR_CONFIG", &config)
            .env("BELLJAR_LOG", "belljar=debug")
            .env("DOCKER_HOST", format!("unix://{}", socket.display()))
            .env_remove("DOCKER_CONTEXT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let mut world = Self {
            input: process.stdin.take(),
            state,
            process,
            answers,
            last_id: 0,
            rules,
            asked: name(version),
            ours: name(&drawn),
            server,
            volumes: BTreeSet::new(),
        };
        world.volumes.insert(world.ours.clone());
        world.honest_guest();
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "hostile guest", "version": "1"},
        });
        world.ask("initialize", &hello);
        world.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        world.works();
        world
    }

    /// From now on sandboxes get the guest.
    pub(crate) fn honest_guest(&mut self) {
        let mut rules = self.rules.lock().unwrap();
        let (asked, ours) = (self.asked.as_bytes(), self.ours.as_bytes());
        rules.there = vec![(asked.to_vec(), ours.to_vec())];
        let back = (ours.to_vec(), asked.to_vec());
        if !rules.back.contains(&back) {
            rules.back.push(back);
        }
    }

    /// From now on sandboxes get the liar with this lie.
    pub(crate) fn liar(&mut self, number: usize) {
        let pointed = [
            "volume",
            "inspect",
            &self.ours,
            "--format",
            "{{index .Labels \"belljar.volume\"}}",
        ];
        let honest = docker(&pointed).unwrap();
        self.volumes.insert(honest.clone());
        // Of the same length, and beginning as it must.
        let lying = format!("{}{}", &honest[..honest.len() - DRAWN], "f".repeat(DRAWN));
        if docker(&["volume", "inspect", &lying]).is_err() {
            liar::seed(&lying);
            self.volumes.insert(lying.clone());
        }
        let known = honest.replace(&self.ours, &self.asked);
        let hostname = format!("\"Hostname\":\"lie-{number:03}\"").into_bytes();
        let sandbox = b"\"Hostname\":\"sandbox\"".to_vec();
        let mut rules = self.rules.lock().unwrap();
        let there = (known.clone().into_bytes(), lying.clone().into_bytes());
        rules.there.insert(0, there);
        rules.there.push((sandbox.clone(), hostname));
        rules.back = vec![
            (lying.into_bytes(), known.into_bytes()),
            (
                self.ours.clone().into_bytes(),
                self.asked.clone().into_bytes(),
            ),
            (b"\"Hostname\":\"lie-???\"".to_vec(), sandbox),
        ];
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let answer = self
                .answers
                .recv_timeout(PATIENCE)
                .expect("an answer in time");
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    }

    /// Calls a tool. Whatever comes of it holds nothing of the liar's that could be taken for the server's.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_harmless(&result);
        result
    }

    pub(crate) fn works(&mut self) {
        let code = json!({"language": "bash", "code": "echo honest"});
        let result = self.call("run_code", &code);
        assert_eq!(
            result["structuredContent"]["stdout"]["text"], "honest\n",
            "{result}"
        );
    }

    /// Containers of this server, running or not.
    pub(crate) fn containers(&self) -> BTreeSet<String> {
        let files = std::fs::read_dir(self.state.path().join("instances")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let instances: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".lock").map(str::to_owned))
            .collect();
        let listed = docker(&["ps", "--all", "--format", "{{.Names}}"]).unwrap();
        let ours = |name: &&str| instances.iter().any(|instance| name.contains(instance));
        listed.lines().filter(ours).map(str::to_owned).collect()
    }

    pub(crate) fn until_empty(&self) {
        until("its containers are gone", || self.containers().is_empty());
    }

    /// What the kernel says of the server's memory, in KiB.
    fn memory(&self, key: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// What the server held more at its peak since [`Self::mark`] gave `before`, in MiB.
    pub(crate) fn peak_since(&self, before: u64) -> f64 {
        let more = self.memory("VmHWM:").saturating_sub(before);
        f64::from(u32::try_from(more).unwrap()) / 1024.0
    }

    /// Begins to look for the peak anew; what the server holds now, in KiB.
    pub(crate) fn mark(&self) -> u64 {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").unwrap();
        self.memory("VmRSS:")
    }

    pub(crate) fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.process.id());
        std::fs::read_dir(path).unwrap().count()
    }

    /// The server's log and its audit log.
    pub(crate) fn logs(&self) -> Vec<u8> {
        let mut logs = std::fs::read(self.state.path().join("log")).unwrap();
        for file in std::fs::read_dir(self.state.path().join("audit")).unwrap() {
            logs.extend(std::fs::read(file.unwrap().path()).unwrap());
        }
        logs
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // In good order, so that nothing is left of its containers.
        self.input = None;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("{}", String::from_utf8_lossy(&self.logs()));
        }
        for volume in &self.volumes {
            let _ = docker(&["volume", "rm", volume]);
        }
        // Where a guest was replaced there was another volume in between.
        let names = docker(&["volume", "ls", "--quiet"]).unwrap_or_default();
        for volume in names.lines().filter(|name| name.starts_with(&self.ours)) {
            let _ = docker(&["volume", "rm", volume]);
        }
    }
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The daemon's socket.
fn daemon() -> PathBuf {
    let environment = Environment::gather();
    let host = environment.docker_host.unwrap_or_default();
    host.strip_prefix("unix://")
        .unwrap_or("/var/run/docker.sock")
        .into()
}

/// Hexadecimal digits, as many as a guest's version has.
fn drawn() -> String {
    let mut bytes = [0; DRAWN / 2];
    getrandom::fill(&mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server that takes connections and says nothing; its name inside, and its port.
fn silent() -> (String, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let _held: Vec<_> = listener.incoming().collect();
    });
    (format!("plain.lab.test:{port}"), port)
}

/// Every text of an answer: nothing raw, and the liar's words within fences only.
fn assert_harmless(result: &Value) {
    let mut inside = None;
    for line in result["content"].as_array().into_iter().flatten() {
        for line in line["text"].as_str().unwrap_or_default().lines() {
            if let Some(name) = line.strip_prefix("----- BEGIN UNTRUSTED ") {
                inside = inside.or(Some(name.to_owned()));
            } else if let Some(name) = line.strip_prefix("----- END UNTRUSTED ") {
                inside = inside.filter(|begun| begun != name);
            } else {
                assert!(inside.is_some() || !line.contains("LIAR"), "{result}");
            }
        }
    }
    assert!(inside.is_none(), "{result}");
    let whole = result.to_string();
    for raw in ["\\u001b", "\u{1b}", "\u{202e}", "\\u202e"] {
        assert!(!whole.contains(raw), "{whole}");
    }
}
