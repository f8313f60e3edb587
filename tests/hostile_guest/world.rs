//! The real server, on the real daemon, behind the proxy: what the tests ask of it and measure.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use belljar::{config::Environment, engine::guest_binary::Architecture};
use belljar_test_client::{Server, holds_within, left};
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
    client: Server,
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
             resolve = {{ \"plain.lab.test\" = [\"127.0.0.1\"] }}\nallow_private = [\"127.0.0.1/32\"]\n\
             [packages]\ntimeout_seconds = 2\n\
             [packages.python]\nindex = \"http://127.0.0.1:{port}/simple\"\nallow_private = [\"127.0.0.1/32\"]\n"
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
        let (asked, ours) = (name(version), name(&drawn));
        honest(&rules, &asked, &ours);
        let client = Server::on_pipes(
            Command::new(env!("CARGO_BIN_EXE_belljar"))
                .env("BELLJAR_STATE_DIR", state.path())
                .env("BELLJAR_CONFIG", &config)
                .env("BELLJAR_LOG", "belljar=debug")
                .env("DOCKER_HOST", format!("unix://{}", socket.display()))
                .env_remove("DOCKER_CONTEXT")
                .stderr(log),
        );
        let mut world = Self {
            volumes: BTreeSet::from([ours.clone()]),
            state,
            client,
            rules,
            asked,
            ours,
            server,
        };
        world.works();
        world
    }

    /// From now on sandboxes get the guest.
    pub(crate) fn honest_guest(&mut self) {
        honest(&self.rules, &self.asked, &self.ours);
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
        rules.there = vec![
            (known.clone().into_bytes(), lying.clone().into_bytes()),
            (
                self.asked.clone().into_bytes(),
                self.ours.clone().into_bytes(),
            ),
            (sandbox.clone(), hostname),
        ];
        rules.back = vec![
            (lying.into_bytes(), known.into_bytes()),
            (
                self.ours.clone().into_bytes(),
                self.asked.clone().into_bytes(),
            ),
            (b"\"Hostname\":\"lie-???\"".to_vec(), sandbox),
        ];
    }

    /// Begins to call a tool.
    pub(crate) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.client.begin(tool, arguments)
    }

    /// What came of a call. It holds nothing of the liar's that could be taken for the server's.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let result = self.client.answer(id, PATIENCE).expect("an answer in time");
        assert_harmless(&result);
        result
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.answer(id)
    }

    /// Begins a run, and takes it back once it is on record, which it is when its sandbox is there.
    pub(crate) fn cancelled(&mut self, run: &Value) {
        let begun = self.begun();
        let id = self.begin("run_code", run);
        until("the run begins", || self.begun() > begun);
        self.client.cancel(id);
    }

    /// How many programs and installers are on record from their begin.
    pub(crate) fn begun(&self) -> usize {
        let lines = left::audit(self.state.path());
        let begins =
            |line: &&Value| line["action"] == "begin_run" || line["action"] == "install_packages";
        lines.iter().filter(begins).count()
    }

    /// The lines of the record about one action.
    pub(crate) fn recorded(&self, action: &str) -> Vec<Value> {
        left::recorded(self.state.path(), action)
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
        left::containers(&left::instances(self.state.path()))
    }

    pub(crate) fn until_empty(&self) {
        until("its containers are gone", || self.containers().is_empty());
    }

    /// What the server held more at its peak since [`Self::mark`] gave `before`, in MiB.
    pub(crate) fn peak_since(&self, before: u64) -> f64 {
        let peak = self.client.process.memory_kib("VmHWM");
        let more = u32::try_from(peak.saturating_sub(before)).unwrap();
        f64::from(more) / 1024.0
    }

    /// Begins to look for the peak anew; what the server holds now, in KiB.
    pub(crate) fn mark(&self) -> u64 {
        self.client.process.mark()
    }

    /// How many files the server has open, and how many threads it has.
    pub(crate) fn level(&self) -> Level {
        Level {
            files: self.client.process.open_files(),
            threads: self.client.process.threads(),
        }
    }

    /// Ends the server in good order. It leaves its record, what it keeps, and nothing else.
    pub(crate) fn end(mut self) {
        let instances = left::instances(self.state.path());
        assert_eq!(self.client.close(), Some(0));
        assert_eq!(left::containers(&instances), BTreeSet::new());
        let strangers = left::strangers(self.state.path(), None);
        assert_eq!(strangers, BTreeSet::new());
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
        self.client.close();
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

#[track_caller]
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(PATIENCE, holds), "not in time: {what}");
}

/// What a server has of the machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) files: usize,
    pub(crate) threads: u64,
}

/// Replaces the pointer to the guest's volume by ours, which the server fills by itself.
fn honest(rules: &Mutex<Rules>, asked: &str, ours: &str) {
    let mut rules = rules.lock().unwrap();
    rules.there = vec![(asked.into(), ours.into())];
    let back = (ours.into(), asked.into());
    if !rules.back.contains(&back) {
        rules.back.push(back);
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
