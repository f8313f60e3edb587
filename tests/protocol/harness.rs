//! A server of its own for each test: broker, store, audit log and protocol over a daemon in memory.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use belljar::{
    artifact::{Access, AllowedDirs, Entry, Options, Store},
    audit::{Log, Logs},
    broker::{Broker, Parts},
    config::{FileOrigin, Settings},
    egress::Packages,
    engine::{
        Engine, EngineOptions, Instance,
        daemon::DaemonError,
        fake::{FakeDaemon, Verb, scripted},
        scripted_guest::Greeting,
    },
    transport,
    types::{Cpus, RunId},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, Call, Client, Era, PATIENCE};

/// Bytes in flight between client and server.
const WIRE_BYTES: usize = 64 * 1024;
/// The images that the fake daemon has.
const IMAGES: [&str; 3] = [
    "belljar/python:latest",
    "belljar/javascript:latest",
    "belljar/bash:latest",
];

/// How to start a server.
pub(crate) struct Setup {
    daemon: Arc<FakeDaemon>,
    state: Arc<TempDir>,
    config: String,
    folders: Vec<(PathBuf, Access)>,
    audit: Option<File>,
    ttl: Option<Duration>,
    era: Era,
}

impl Setup {
    /// On a healthy daemon with all images.
    pub(crate) fn new() -> Self {
        Self::on(FakeDaemon::new())
    }

    /// On this daemon, which is given all images.
    pub(crate) fn on(daemon: FakeDaemon) -> Self {
        for image in IMAGES {
            daemon.add_image(image);
        }
        Self::bare(daemon)
    }

    /// On a daemon whose guests greet like this.
    pub(crate) fn greeted(greeting: Greeting) -> Self {
        Self::on(FakeDaemon::with_guest(move |uid, stream| {
            scripted(greeting, uid, stream)
        }))
    }

    /// On this daemon as it is.
    pub(crate) fn bare(daemon: FakeDaemon) -> Self {
        Self {
            daemon: Arc::new(daemon),
            state: Arc::new(tempfile::tempdir().unwrap()),
            config: String::new(),
            folders: Vec::new(),
            audit: None,
            ttl: None,
            era: Era::Legacy,
        }
    }

    /// As another window of the same user: same daemon, same state directory.
    pub(crate) fn beside(world: &World) -> Self {
        Self {
            daemon: Arc::clone(&world.daemon),
            state: Arc::clone(&world.state),
            ..Self::bare(FakeDaemon::new())
        }
    }

    /// With this configuration file.
    pub(crate) fn config(self, text: &str) -> Self {
        Self {
            config: text.to_owned(),
            ..self
        }
    }

    /// With a folder of the user's opened.
    pub(crate) fn folder(mut self, path: &Path, access: Access) -> Self {
        self.folders.push((path.to_owned(), access));
        self
    }

    /// With the audit log in an open file.
    pub(crate) fn audit(self, file: File) -> Self {
        Self {
            audit: Some(file),
            ..self
        }
    }

    /// With kept files that live so long.
    pub(crate) fn ttl(self, ttl: Duration) -> Self {
        Self {
            ttl: Some(ttl),
            ..self
        }
    }

    /// With a client of this era.
    pub(crate) fn era(self, era: Era) -> Self {
        Self { era, ..self }
    }

    /// Starts it.
    pub(crate) async fn start(self) -> World {
        let era = self.era;
        let (stream, world) = self.serve();
        let (broker, daemon, state, served, stop) = world;
        World {
            client: Client::connect(stream, era).await,
            broker,
            daemon,
            state,
            served,
            stop,
        }
    }

    /// Starts it and leaves the client's end of the wire to the caller.
    pub(crate) fn serve(self) -> (tokio::io::DuplexStream, Parted) {
        let state = self.state.path();
        // Most tests count what one call makes: nothing is made for later unless a test asks for it.
        let mut config = self.config;
        if !config.contains("[pool]") {
            config.push_str("\n[pool]\nmax = 0\n");
        }
        let settings =
            Settings::parse(&config, FileOrigin::BuiltIn, Cpus::from_millis(4000)).unwrap();
        let engine = Engine::new(
            Arc::clone(&self.daemon) as _,
            Instance::create(state).unwrap(),
            EngineOptions::default(),
        );
        let audit = match self.audit {
            Some(file) => Log::on(file, engine.instance().id()).unwrap(),
            None => Log::open(&state.join("audit"), engine.instance().id()).unwrap(),
        };
        let options = Options {
            ttl: self.ttl.unwrap_or(settings.artifacts.ttl),
            ..Options::default()
        };
        let parts = Parts {
            store: Store::open(state.join("artifacts"), options).unwrap(),
            local: AllowedDirs::open(self.folders).unwrap(),
            packages: Packages::new(&settings.packages, state.join("packages")),
            engine,
            audit,
        };
        let broker = Broker::new(&settings, parts);
        broker.start().unwrap();
        let (ours, theirs) = tokio::io::duplex(WIRE_BYTES);
        let (input, output) = tokio::io::split(theirs);
        let stop = CancellationToken::new();
        let serving = Box::pin(transport::stdio::serve(
            Arc::clone(&broker),
            settings.structured_content,
            input,
            output,
            stop.clone(),
        ));
        let served = tokio::spawn(async move { serving.await.unwrap() });
        (ours, (broker, self.daemon, self.state, served, stop))
    }
}

pub(crate) type Parted = (
    Arc<Broker>,
    Arc<FakeDaemon>,
    Arc<TempDir>,
    JoinHandle<()>,
    CancellationToken,
);

/// A running server with its client.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) broker: Arc<Broker>,
    pub(crate) daemon: Arc<FakeDaemon>,
    pub(crate) state: Arc<TempDir>,
    pub(crate) served: JoinHandle<()>,
    pub(crate) stop: CancellationToken,
}

impl World {
    /// On a healthy daemon.
    pub(crate) async fn new() -> Self {
        Setup::new().start().await
    }

    /// Calls a tool.
    pub(crate) async fn tool(&self, name: &str, arguments: Value) -> Answer {
        self.client.tool(name, arguments).await
    }

    /// Runs a script with nothing else said.
    pub(crate) async fn run(&self, code: &str) -> Answer {
        self.run_with(code, json!({})).await
    }

    /// Runs a script with more arguments.
    pub(crate) async fn run_with(&self, code: &str, more: Value) -> Answer {
        self.begin_run(code, more).await.answer().await
    }

    /// Begins to run a script.
    pub(crate) async fn begin_run(&self, code: &str, more: Value) -> Call {
        let arguments = merged(json!({"language": "python", "code": code}), more);
        self.client.begin_tool("run_code", arguments).await
    }

    /// Takes a call back.
    pub(crate) async fn cancel(&self, call: &Call) {
        let params = json!({"requestId": call.id, "reason": "changed my mind"});
        self.client.notify("notifications/cancelled", params).await;
    }

    /// Opens a session; its id.
    pub(crate) async fn open(&self, more: Value) -> String {
        let arguments = merged(json!({"language": "python"}), more);
        let opened = self.tool("open_session", arguments).await;
        opened.ok()["session"].as_str().unwrap().to_owned()
    }

    /// Proves that the server still does its work.
    pub(crate) async fn works(&self) {
        let answer = self.run("out still here").await;
        assert_eq!(answer.ok()["stdout"]["text"], "still here\n");
    }

    /// How many containers were ever asked for.
    pub(crate) fn created(&self) -> usize {
        self.daemon.count(Verb::Create)
    }

    /// Waits until the daemon has no container, and nobody looks after one that is gone.
    pub(crate) async fn until_empty(&self) {
        let empty = || {
            let mut looked_after = BTreeSet::new();
            let removals_are_over = self.daemon.calls().iter().rev().all(|(verb, about)| {
                if *verb == Verb::Inspect {
                    looked_after.insert(about.clone());
                }
                *verb != Verb::Remove || looked_after.contains(about)
            });
            removals_are_over && self.daemon.containers().is_empty()
        };
        until("the daemon has no container", empty).await;
    }

    /// Waits until a program has been begun that has this many predecessors.
    pub(crate) async fn until_begun(&self, predecessors: usize) {
        let begun = || self.lines("begin_run").len() > predecessors;
        until("a program runs", begun).await;
    }

    /// Every line of the audit log.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let lines = Logs::open(self.state.path().join("audit")).tail(usize::MAX);
        let lines = lines.unwrap();
        lines
            .iter()
            .map(|line| serde_json::to_value(line).unwrap())
            .collect()
    }

    /// The lines of one action.
    pub(crate) fn lines(&self, action: &str) -> Vec<Value> {
        let mut lines = self.audit();
        lines.retain(|line| line["action"] == action);
        lines
    }

    /// The store, as the command line opens it.
    pub(crate) fn store(&self) -> Store {
        Store::open(self.state.path().join("artifacts"), Options::default()).unwrap()
    }

    /// What is kept of a run for the record, once it is so much: names and contents.
    pub(crate) async fn records(&self, run: &str, count: usize) -> Vec<(String, Vec<u8>)> {
        let store = self.store();
        let id = RunId::parse(run).unwrap();
        // The last of it is written after the answer.
        for _ in 0..1000 {
            if store.records_of(&id).await.unwrap().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let entries: Vec<Entry> = store.records_of(&RunId::parse(run).unwrap()).await.unwrap();
        let mut records = Vec::new();
        for entry in entries {
            let bytes = store.read(&entry, 0, entry.bytes).await.unwrap();
            records.push((entry.name.clone(), bytes.to_vec()));
        }
        records
    }
}

/// `base` with the fields of `more` added or replaced.
pub(crate) fn merged(mut base: Value, more: Value) -> Value {
    let Value::Object(more) = more else {
        panic!("arguments are an object: {more}")
    };
    for (name, value) in more {
        base[&name] = value;
    }
    base
}

/// Waits, for a bounded time, until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "never: {what}");
}

/// What a daemon says that cannot.
pub(crate) fn failure() -> DaemonError {
    DaemonError::Failed {
        call: "test",
        why: "on cue".to_owned(),
    }
}

/// A daemon that is not there.
pub(crate) fn down() -> DaemonError {
    DaemonError::Unreachable {
        endpoint: "unix:///var/run/docker.sock".to_owned(),
        why: "no such file".to_owned(),
    }
}
