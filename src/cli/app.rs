//! Puts the parts together: settings and environment in, a running broker out.

use std::sync::Arc;

use anyhow::Context as _;

use crate::{
    artifact::{Access, AllowedDirs, LocalError, Options, Store},
    audit::Log,
    broker::{Broker, Parts},
    config::{Environment, Settings},
    egress::Packages,
    engine::{Engine, EngineOptions, Instance, docker::Docker, endpoint},
    types::MIB,
};

/// A broker with everything behind it.
pub(super) struct App {
    broker: Arc<Broker>,
}

impl App {
    /// The same for one run and the end: nothing is started for a next one.
    pub(super) fn for_one_run(
        settings: &Settings,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let mut settings = settings.clone();
        settings.pool.max = 0;
        Self::start(&settings, environment)
    }

    /// Opens the state directory and starts the background work. The daemon may be down: that shows with the
    /// first call that needs it.
    pub(super) fn start(settings: &Settings, environment: &Environment) -> anyhow::Result<Self> {
        let state = environment.state_dir()?;
        let unusable = || {
            format!(
                "the state directory {} cannot be used: make room in it and make it writable, or name another in \
                 BELLJAR_STATE_DIR",
                state.display()
            )
        };
        let engine = engine(settings, environment)?;
        let store = Store::open(
            state.join("artifacts"),
            Options {
                ttl: settings.artifacts.ttl,
                cap_bytes: settings.artifacts.cap_mib.saturating_mul(MIB),
                ..Options::default()
            },
        )
        .with_context(unusable)?;
        let audit =
            Log::open(&state.join("audit"), engine.instance().id()).with_context(unusable)?;
        let local = allowed_folders(settings)?;
        let packages = Packages::new(&settings.packages, state.join("packages"));
        let broker = Broker::new(
            settings,
            Parts {
                engine,
                store,
                audit,
                local,
                packages,
            },
        );
        broker.start().with_context(unusable)?;
        Ok(Self { broker })
    }

    /// The one door.
    pub(super) fn broker(&self) -> Arc<Broker> {
        Arc::clone(&self.broker)
    }

    /// Ends everything that runs and leaves no container.
    pub(super) async fn stop(self) {
        self.broker.stop().await;
    }
}

/// The folders of this machine that tools may touch, opened.
pub(super) fn allowed_folders(settings: &Settings) -> Result<AllowedDirs, LocalError> {
    let files = &settings.files;
    let read = files.read.iter().map(|dir| (dir.clone(), Access::Read));
    let write = files
        .read_write
        .iter()
        .map(|dir| (dir.clone(), Access::ReadWrite));
    AllowedDirs::open(read.chain(write))
}

/// An engine of this process, with its own instance file.
pub(super) fn engine(settings: &Settings, environment: &Environment) -> anyhow::Result<Engine> {
    let instance = Instance::create(&environment.state_dir()?)?;
    let options = EngineOptions {
        runtime: settings.docker.runtime.clone(),
    };
    Ok(Engine::new(
        Arc::new(docker(settings, environment)),
        instance,
        options,
    ))
}

/// The daemon that the settings and the environment lead to. Nothing is asked of it yet.
pub(super) fn docker(settings: &Settings, environment: &Environment) -> Docker {
    let configured = settings.docker.host.as_deref();
    Docker::new(endpoint::Environment::of(environment, configured))
}
