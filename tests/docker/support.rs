//! What the tests share: an engine with a state directory of its own, images made on the spot, and
//! running a program to its end.

use std::{path::Path, sync::Arc};

use belljar::{
    config::{FileOrigin, Settings, machine_cpus},
    engine::{
        Engine, EngineError, EngineOptions, Instance, Sandbox,
        docker::Docker,
        endpoint,
        tether::{
            Run, RunEvent,
            message::{Collect, Exit, ExitStatus, RunId, RunSpec, StdinKind},
        },
    },
    policy::{Launch, Permit, Policy, SessionAsk},
    types::{Caller, LimitsRequest},
};
use bollard::{
    models::ContainerInspectResponse,
    query_parameters::{InspectContainerOptions, ListContainersOptions},
};

pub(crate) const BASH: &str = "belljar/bash:latest";
pub(crate) const PYTHON: &str = "belljar/python:latest";
pub(crate) const JAVASCRIPT: &str = "belljar/javascript:latest";

/// Names the runtime to run under; absent: the daemon's own.
const RUNTIME: &str = "BELLJAR_TEST_RUNTIME";

/// Longest time that a program of these tests runs.
const TIMEOUT_MS: u64 = 60_000;

pub(crate) struct World {
    pub(crate) state: tempfile::TempDir,
    pub(crate) engine: Engine,
}

impl World {
    pub(crate) fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let engine = engine_in(state.path(), runtime().as_deref());
        Self { state, engine }
    }

    pub(crate) async fn launch(&self, image: &str) -> Sandbox {
        self.try_launch(image).await.unwrap()
    }

    pub(crate) async fn try_launch(&self, image: &str) -> Result<Sandbox, EngineError> {
        self.engine
            .launch(&permit(image, LimitsRequest::default()))
            .await
    }
}

/// The runtime to run under, where it is not the daemon's own.
pub(crate) fn runtime() -> Option<String> {
    std::env::var(RUNTIME).ok()
}

pub(crate) fn engine_in(state: &Path, runtime: Option<&str>) -> Engine {
    let environment = endpoint::Environment::of(&belljar::config::Environment::gather(), None);
    let options = EngineOptions {
        runtime: runtime.map(str::to_owned),
    };
    Engine::new(
        Arc::new(Docker::new(environment)),
        Instance::create(state).unwrap(),
        options,
    )
}

/// A permit as the product makes one: decided by the policy, for a language that the operator configured.
pub(crate) fn permit(image: &str, limits: LimitsRequest) -> Permit<Launch> {
    let config = format!(
        "[[language]]\nname = \"probe\"\nimage = \"{image}\"\nprogram = \".probe\"\ncommand = [\"probe\", \"{{program}}\"]\n"
    );
    let settings = Settings::parse(&config, FileOrigin::BuiltIn, machine_cpus()).unwrap();
    let ask = SessionAsk {
        language: "probe".into(),
        limits,
        ..SessionAsk::default()
    };
    Policy::new(&settings)
        .open_session(&Caller::Local, &ask)
        .unwrap()
        .0
}

/// What a program did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
}

impl Ran {
    /// Its standard output, if it ended well.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.exit.status, ExitStatus::Code(0), "{self:?}");
        self.stdout
    }
}

pub(crate) async fn run(sandbox: &Sandbox, argv: &[&str]) -> Ran {
    hear(&mut sandbox.run(spec(argv), None).await.unwrap()).await
}

/// A program without input, for [`hear`].
pub(crate) fn spec(argv: &[&str]) -> RunSpec {
    RunSpec {
        id: RunId(0),
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), "/workspace/.home".into()),
        ],
        cwd: "/workspace".into(),
        program: None,
        files: vec![],
        stdin: StdinKind::Null,
        timeout_ms: TIMEOUT_MS,
        nproc: None,
        collect: Collect {
            skip_dirs: vec![],
            max_files: 0,
        },
        warm: None,
    }
}

/// What a program does from here to its end.
pub(crate) async fn hear(run: &mut Run) -> Ran {
    let (mut stdout, mut stderr, mut exit) = (Vec::new(), Vec::new(), None);
    while let Some(event) = run.next().await.unwrap() {
        match event {
            RunEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            RunEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            RunEvent::Exited(ended) => exit = Some(ended),
            RunEvent::Started { .. } | RunEvent::NewFile(_) => {}
        }
    }
    Ran {
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        exit: exit.unwrap(),
    }
}

pub(crate) async fn bash(sandbox: &Sandbox, script: &str) -> Ran {
    run(sandbox, &["bash", "-c", script]).await
}

pub(crate) async fn python(sandbox: &Sandbox, script: &str) -> Ran {
    run(sandbox, &["python3", "-c", script]).await
}

/// The client of these tests, apart from the engine's.
pub(crate) fn client() -> bollard::Docker {
    bollard::Docker::connect_with_local_defaults().expect("these tests need a Docker daemon")
}

/// Every container of a sandbox, instance or role, in whatever state.
pub(crate) async fn containers(label: &str) -> Vec<ContainerInspectResponse> {
    let options = ListContainersOptions {
        all: true,
        filters: Some([("label".to_owned(), vec![label.to_owned()])].into()),
        ..ListContainersOptions::default()
    };
    let mut found = Vec::new();
    for listed in client().list_containers(Some(options)).await.unwrap() {
        let id = listed.id.unwrap();
        let inspected = client()
            .inspect_container(&id, None::<InspectContainerOptions>)
            .await;
        found.extend(inspected.ok());
    }
    found
}

pub(crate) async fn container(sandbox: &Sandbox) -> ContainerInspectResponse {
    let mut found = containers(&format!("belljar.session={}", sandbox.id())).await;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Waits for what the daemon does in its own time.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if condition().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}
