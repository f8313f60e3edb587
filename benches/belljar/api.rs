//! The Docker API without belljar: the floor that the table compares with.
//!
//! Never through the engine. A container that it makes bears the label [`LABEL`] and is removed when it is dropped.
#![expect(
    clippy::disallowed_types,
    reason = "the rival of the engine speaks to Docker past it"
)]

use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, bail};
use bollard::{
    Docker,
    models::ContainerCreateBody,
    query_parameters::{CreateContainerOptions, RemoveContainerOptions, StartContainerOptions},
};
use tokio::runtime::Runtime;

use crate::{attach::Attached, docker};

/// Seconds that the client waits for an answer.
const TIMEOUT_SECONDS: u64 = 120;
/// Marks the containers that the benchmarks made.
const LABEL: &str = "belljar-bench";

static MADE: AtomicUsize = AtomicUsize::new(0);

/// A client of the daemon.
pub(crate) struct Api {
    runtime: Runtime,
    docker: Docker,
    /// The daemon's socket.
    socket: String,
}

impl Api {
    /// Connects to the daemon of the current context, which must listen on a Unix socket.
    pub(crate) fn connect() -> anyhow::Result<Self> {
        let host = docker::command(&[
            "context",
            "inspect",
            "--format",
            "{{.Endpoints.docker.Host}}",
        ])?;
        let Some(socket) = host.strip_prefix("unix://") else {
            bail!("the benchmarks need a daemon on a Unix socket, and this one is at {host}");
        };
        let runtime = Runtime::new().context("start the runtime")?;
        let docker = runtime
            .block_on(async {
                Docker::connect_with_unix(socket, TIMEOUT_SECONDS, bollard::API_DEFAULT_VERSION)?
                    .negotiate_version()
                    .await
            })
            .context("connect to the daemon")?;
        Ok(Self {
            runtime,
            docker,
            socket: socket.to_owned(),
        })
    }

    /// A handle for many tasks at a time.
    pub(crate) fn docker(&self) -> Docker {
        self.docker.clone()
    }

    /// Waits for what the client does.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Makes a container.
    pub(crate) fn create(&self, body: ContainerCreateBody) -> anyhow::Result<Made<'_>> {
        let id = self.block_on(create(&self.docker, body))?;
        Ok(Made { api: self, id })
    }
}

/// Makes a container and gives its id.
pub(crate) async fn create(
    docker: &Docker,
    mut body: ContainerCreateBody,
) -> anyhow::Result<String> {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let options = CreateContainerOptions {
        name: Some(format!("{LABEL}-{}-{number}", std::process::id())),
        ..CreateContainerOptions::default()
    };
    body.labels = Some([(LABEL.to_owned(), "1".to_owned())].into());
    let created = docker
        .create_container(Some(options), body)
        .await
        .context("create")?;
    Ok(created.id)
}

/// Starts a container.
pub(crate) async fn start(docker: &Docker, id: &str) -> anyhow::Result<()> {
    docker
        .start_container(id, None::<StartContainerOptions>)
        .await
        .context("start")
}

/// Kills and removes a container.
pub(crate) async fn remove(docker: &Docker, id: &str) -> anyhow::Result<()> {
    let options = RemoveContainerOptions {
        force: true,
        // Only the volumes without a name: the guest's stays.
        v: true,
        ..RemoveContainerOptions::default()
    };
    docker
        .remove_container(id, Some(options))
        .await
        .context("remove")
}

/// A container of ours.
pub(crate) struct Made<'a> {
    api: &'a Api,
    id: String,
}

impl Made<'_> {
    /// Attaches to its streams; before it starts, so that nothing is missed.
    pub(crate) fn attach(&self) -> anyhow::Result<Attached> {
        Attached::open(&self.api.socket, &self.id)
    }

    /// Starts it.
    pub(crate) fn start(&self) -> anyhow::Result<()> {
        self.api.block_on(start(&self.api.docker, &self.id))
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.api.block_on(remove(&self.api.docker, &self.id)) {
            eprintln!("bench: a container was not removed: {error:#}");
        }
    }
}
