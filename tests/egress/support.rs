//! A broker with an egress profile that leads to a server on loopback, and what its log says.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
};

use belljar::{
    artifact::{AllowedDirs, Options, Store},
    audit::Log,
    broker::{Broker, Opening, Parts, Refusal, RunReport},
    config::{Environment, FileOrigin, Settings},
    egress::Packages,
    engine::{Engine, EngineOptions, Instance, docker::Docker, endpoint},
    policy::{RunAsk, SessionAsk},
    types::{Caller, Status},
};
use belljar_test_upstream::{Options as Site, Upstream};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Names the runtime to run under; absent: the daemon's own.
const RUNTIME: &str = "BELLJAR_TEST_RUNTIME";

/// What every Python program of these tests may call.
pub(crate) const PRELUDE: &str = include_str!("corpus/prelude.py");

/// A secret that must never be seen where it does not belong.
pub(crate) const CANARY: &str = "ghp_Canary0Canary1/Canary2+Canary3\"Can";

/// The names under which the server on loopback is known.
pub(crate) const NAMES: [&str; 8] = [
    "files.lab.test",
    "api.lab.test",
    "pinned.lab.test",
    "plain.lab.test",
    "other.lab.test",
    "a.wild.test",
    "wild.test",
    "notwild.test",
];

/// A broker, its log, and the server that its profiles lead to.
pub(crate) struct World {
    pub(crate) upstream: Upstream,
    pub(crate) state: TempDir,
    broker: Arc<Broker>,
}

impl World {
    /// With what `config` says of egress; `{tls}` and `{plain}` in it are the server's ports, `{names}` a table that
    /// resolves all of its names, `{ca}` the file of its authority, `{token}` a file with
    /// [`CANARY`].
    pub(crate) async fn new(config: &str) -> Self {
        Self::on(Upstream::start(Site::named(&NAMES)).await, config)
    }

    /// The same, with this server.
    pub(crate) fn on(upstream: Upstream, config: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let config = upstream_config(&upstream, state.path(), config);
        let file = state.path().join("belljar.toml");
        std::fs::write(&file, config).unwrap();
        let settings = Settings::load(&Environment::gather(), Some(&file)).unwrap();
        assert!(matches!(settings.origin, FileOrigin::Flag(_)));
        let broker = broker(&settings, state.path());
        Self {
            upstream,
            state,
            broker,
        }
    }

    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Runs a Python program, after [`PRELUDE`], under this profile.
    pub(crate) async fn python(&self, network: &str, program: &str) -> Ran {
        self.run("python", network, &format!("{PRELUDE}\n{program}"))
            .await
    }

    /// The same, in a session.
    pub(crate) async fn python_in(&self, session: &str, program: &str) -> Ran {
        let ask = RunAsk {
            network: None,
            ..self.ask("python", "", &format!("{PRELUDE}\n{program}"))
        };
        Ran(self.try_run(Some(session), ask).await.unwrap())
    }

    pub(crate) async fn run(&self, language: &str, network: &str, code: &str) -> Ran {
        let ask = self.ask(language, network, code);
        Ran(self.try_run(None, ask).await.unwrap())
    }

    pub(crate) async fn try_run(
        &self,
        session: Option<&str>,
        ask: RunAsk,
    ) -> Result<RunReport, Refusal> {
        let result = self
            .broker
            .run(&Caller::Local, session, ask, &CancellationToken::new())
            .await;
        if let (Ok(report), Ok(wanted)) = (&result, std::env::var(RUNTIME)) {
            assert_eq!(report.sandbox.runtime, wanted);
        }
        result
    }

    pub(crate) async fn session(&self, language: &str, network: &str) -> String {
        let ask = SessionAsk {
            language: language.to_owned(),
            network: Some(network.to_owned()),
            ..SessionAsk::default()
        };
        let opened = self
            .broker
            .open_session(&Caller::Local, &ask, &CancellationToken::new())
            .await;
        match opened.unwrap() {
            Opening::Opened(opened) => opened.session.to_string(),
            Opening::NotInstalled(failed) => panic!("{failed:?}"),
        }
    }

    /// A run under this profile, with the server's ports in its environment.
    pub(crate) fn ask(&self, language: &str, network: &str, code: &str) -> RunAsk {
        let env = [
            ("TLS", self.upstream.tls().port()),
            ("PLAIN", self.upstream.plain().port()),
        ];
        RunAsk {
            language: language.to_owned(),
            code: code.to_owned(),
            network: Some(network.to_owned()),
            timeout_seconds: Some(60.0),
            env: env
                .into_iter()
                .map(|(name, port)| (name.to_owned(), port.to_string()))
                .collect::<BTreeMap<_, _>>(),
            ..RunAsk::default()
        }
    }

    /// Every line of the log about what the run `id` wanted to reach.
    pub(crate) fn recorded(&self, id: &str) -> Vec<Value> {
        self.log()
            .into_iter()
            .filter(|line| line["action"] == "egress" && line["run_id"] == id)
            .collect()
    }

    /// The whole log.
    pub(crate) fn log(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(self.state.path().join("audit")).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
        }
        lines
    }

    pub(crate) async fn close(self) {
        self.broker.stop().await;
    }
}

/// The configuration of these tests, with the server's addresses filled in.
fn upstream_config(upstream: &Upstream, dir: &Path, config: &str) -> String {
    std::fs::write(dir.join("lab-ca.pem"), upstream.ca_pem()).unwrap();
    let token = dir.join("token");
    std::fs::write(&token, format!("{CANARY}\n")).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let names: Vec<String> = NAMES
        .iter()
        .map(|name| format!("\"{name}\" = [\"127.0.0.1\"]"))
        .collect();
    let runtime = std::env::var(RUNTIME).ok();
    let runtime = runtime.map(|name| format!("\n[docker]\nruntime = \"{name}\"\n"));
    let config = config
        .replace("{tls}", &upstream.tls().port().to_string())
        .replace("{plain}", &upstream.plain().port().to_string())
        .replace("{names}", &format!("{{ {} }}", names.join(", ")))
        .replace("{ca}", "lab-ca.pem")
        .replace("{token}", token.to_str().unwrap());
    config + &runtime.unwrap_or_default()
}

fn broker(settings: &Settings, state: &Path) -> Arc<Broker> {
    let environment = endpoint::Environment::of(&Environment::gather(), None);
    let options = EngineOptions {
        runtime: settings.docker.runtime.clone(),
    };
    let instance = Instance::create(state).unwrap();
    let audit = Log::open(&state.join("audit"), instance.id()).unwrap();
    let engine = Engine::new(Arc::new(Docker::new(environment)), instance, options);
    let parts = Parts {
        engine,
        store: Store::open(state.join("artifacts"), Options::default()).unwrap(),
        audit,
        local: AllowedDirs::open(std::iter::empty()).unwrap(),
        packages: Packages::new(&settings.packages, state.join("packages")),
    };
    let broker = Broker::new(settings, parts);
    broker.start().unwrap();
    broker
}

/// What a program came to.
#[derive(Debug)]
pub(crate) struct Ran(pub(crate) RunReport);

impl Ran {
    pub(crate) fn stdout(&self) -> String {
        self.0.stdout.shown.text()
    }

    /// What it printed, if it ended well.
    pub(crate) fn ok(&self) -> String {
        assert_eq!(
            (self.0.status, self.0.exit_code),
            (Status::Exited, Some(0)),
            "{}\n{}",
            self.stdout(),
            self.0.stderr.shown.text()
        );
        self.stdout()
    }

    pub(crate) fn id(&self) -> String {
        self.0.run_id.to_string()
    }

    /// The reasons of its denials, each once, in order of their names.
    pub(crate) fn denied(&self) -> Vec<&'static str> {
        let mut reasons: Vec<_> = self.0.egress.denied.iter().map(|one| one.reason).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }

    /// How many requests were allowed.
    pub(crate) fn allowed(&self) -> u64 {
        self.0.egress.allowed.iter().map(|one| one.count).sum()
    }
}

/// The addresses that these hosts have for this machine, as ranges of one: they may be reserved ones, which are only
/// reached where they are opened.
pub(crate) async fn addresses(hosts: &BTreeSet<String>) -> String {
    let mut ranges = BTreeSet::new();
    for host in hosts {
        let found = tokio::net::lookup_host((host.as_str(), 443))
            .await
            .unwrap_or_else(|error| panic!("{host} is not to be found from here: {error}"));
        ranges.extend(found.map(|address| {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            format!("\"{}/{bits}\"", address.ip())
        }));
    }
    ranges.into_iter().collect::<Vec<_>>().join(", ")
}
