//! The Docker daemon, through its HTTP API.
//!
//! The only file that makes calls with `bollard`; `request` and `report` translate to and from its models, and
//! `attach` takes over a connection of its own, whose bytes `demux` takes apart.
//! It connects when it must and not before, so that a server starts while the daemon is down; it puts a
//! deadline on every call; and it never asks for what the engine must never use: pulling, `exec`, archives.
#![expect(
    clippy::disallowed_types,
    reason = "the engine's own adapter: the one place that speaks to Docker"
)]

mod attach;
pub(crate) mod demux;
mod failure;
mod report;
mod request;
#[cfg(test)]
mod silent;

use std::{future::Future, time::Duration};

use async_trait::async_trait;
use bollard::{
    errors::Error,
    query_parameters::{
        CreateContainerOptions, CreateImageOptions, EventsOptions, InspectContainerOptions,
        KillContainerOptions, ListContainersOptions, ListVolumesOptions, RemoveContainerOptions,
        RemoveImageOptions, RemoveVolumeOptions, StartContainerOptions, WaitContainerOptions,
    },
};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream::BoxStream};

use super::{
    DockerImages,
    daemon::{
        Attached, ContainerSpec, Created, Daemon, DaemonError, Image, Info, Inspected, Listed,
        Locality, Place, Resources, State, Version, Volume,
    },
    deadline,
    endpoint::{Endpoint, EndpointError, Environment, RealFiles, Target, discover},
    shared::Shared,
};

/// The client's own limit, in seconds. Each call has a shorter deadline; this one is there because the
/// client wants one.
const CLIENT_TIMEOUT_SECONDS: u64 = 300;

/// The client library's handle; clones share its connections.
#[derive(Clone, Debug)]
struct Client(bollard::Docker);

/// A Docker daemon.
#[derive(Debug)]
pub struct Docker {
    environment: Environment,
    client: Shared<Client>,
}

impl Docker {
    /// The daemon that the user's environment names. Connects to nothing yet, and looks again after
    /// a failure.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            client: Shared::default(),
        }
    }

    /// What builds images on this daemon.
    pub async fn images(&self) -> Result<DockerImages, DaemonError> {
        self.client().await.map(DockerImages::new)
    }

    fn endpoint(&self) -> Result<Endpoint, EndpointError> {
        discover(&self.environment, &RealFiles)
    }

    /// The connected client, with the API version that both sides speak.
    async fn client(&self) -> Result<bollard::Docker, DaemonError> {
        let client = self.client.get(self.connect()).await?;
        Ok(client.0)
    }

    async fn connect(&self) -> Result<Client, DaemonError> {
        let endpoint = self.endpoint().map_err(|error| DaemonError::Unreachable {
            endpoint: "any known address".to_owned(),
            why: error.to_string(),
        })?;
        let unreachable = |error: &Error| DaemonError::Unreachable {
            endpoint: endpoint.target.to_string(),
            why: failure::reason(error),
        };
        let client = open(&endpoint.target).map_err(|error| unreachable(&error))?;
        let client = tokio::time::timeout(deadline::QUERY, client.negotiate_version())
            .await
            .map_err(|_| DaemonError::Timeout {
                call: "version",
                seconds: deadline::QUERY.as_secs(),
            })?
            .map_err(|error| unreachable(&error))?;
        Ok(Client(client))
    }

    /// Makes one call within its deadline.
    async fn call<T, F>(
        &self,
        call: &'static str,
        limit: Duration,
        make: impl FnOnce(bollard::Docker) -> F,
    ) -> Result<T, DaemonError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let client = self.client().await?;
        let Ok(result) = tokio::time::timeout(limit, make(client)).await else {
            return Err(DaemonError::Timeout {
                call,
                seconds: limit.as_secs(),
            });
        };
        match result {
            Ok(value) => Ok(value),
            Err(error) => {
                let endpoint = self.place().endpoint;
                let error = failure::of(call, limit, &endpoint, &error);
                if matches!(error, DaemonError::Unreachable { .. }) {
                    // It may come back elsewhere, or as another version.
                    self.client.forget();
                }
                Err(error)
            }
        }
    }
}

fn open(target: &Target) -> Result<bollard::Docker, Error> {
    let version = bollard::API_DEFAULT_VERSION;
    match target {
        #[cfg(unix)]
        Target::Unix(path) => bollard::Docker::connect_with_unix(
            &path.to_string_lossy(),
            CLIENT_TIMEOUT_SECONDS,
            version,
        ),
        #[cfg(windows)]
        Target::NamedPipe(path) => {
            bollard::Docker::connect_with_named_pipe(path, CLIENT_TIMEOUT_SECONDS, version)
        }
        Target::Tcp(address) => {
            bollard::Docker::connect_with_http(address, CLIENT_TIMEOUT_SECONDS, version)
        }
        #[cfg(not(unix))]
        Target::Unix(_) => Err(Error::UnsupportedURISchemeError {
            uri: target.to_string(),
        }),
        #[cfg(not(windows))]
        Target::NamedPipe(_) => Err(Error::UnsupportedURISchemeError {
            uri: target.to_string(),
        }),
    }
}

/// `None` for what does not exist.
fn found<T>(result: Result<T, DaemonError>) -> Result<Option<T>, DaemonError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(DaemonError::NotFound { .. }) => Ok(None),
        Err(
            error @ (DaemonError::Unreachable { .. }
            | DaemonError::Timeout { .. }
            | DaemonError::Conflict { .. }
            | DaemonError::Failed { .. }),
        ) => Err(error),
    }
}

/// Not there any more is as good as removed.
fn gone(result: Result<(), DaemonError>) -> Result<(), DaemonError> {
    found(result).map(|_| ())
}

#[async_trait]
impl Daemon for Docker {
    fn place(&self) -> Place {
        match self.endpoint() {
            Ok(Endpoint { target, why }) => Place {
                endpoint: target.to_string(),
                why,
                locality: match target {
                    Target::Unix(_) | Target::NamedPipe(_) => Locality::LocalSocket,
                    Target::Tcp(_) => Locality::Network,
                },
            },
            Err(error) => Place {
                endpoint: "none".to_owned(),
                why: error.to_string(),
                locality: Locality::Network,
            },
        }
    }

    async fn version(&self) -> Result<Version, DaemonError> {
        let version = self
            .call("version", deadline::QUERY, |docker| async move {
                docker.version().await
            })
            .await?;
        Ok(report::version(version))
    }

    async fn info(&self) -> Result<Info, DaemonError> {
        let info = self
            .call("info", deadline::QUERY, |docker| async move {
                docker.info().await
            })
            .await?;
        Ok(report::info(info))
    }

    async fn image(&self, reference: &str) -> Result<Option<Image>, DaemonError> {
        request::reference(reference)?;
        let image = self
            .call("inspect image", deadline::QUERY, |docker| async move {
                docker.inspect_image(reference).await
            })
            .await;
        Ok(found(image)?.map(report::image))
    }

    async fn import_image(
        &self,
        repository: &str,
        tag: &str,
        root: Bytes,
    ) -> Result<(), DaemonError> {
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            repo: Some(repository.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        self.call("import image", deadline::IMPORT, |docker| async move {
            docker
                .create_image(Some(options), Some(bollard::body_full(root)), None)
                .try_for_each(|_| future::ready(Ok(())))
                .await
        })
        .await
    }

    async fn remove_image(&self, reference: &str) -> Result<(), DaemonError> {
        request::reference(reference)?;
        let result = self
            .call("remove image", deadline::REMOVE, |docker| async move {
                docker
                    .remove_image(reference, None::<RemoveImageOptions>, None)
                    .await
                    .map(|_| ())
            })
            .await;
        gone(result)
    }

    async fn image_changes(
        &self,
    ) -> Result<BoxStream<'static, Result<(), DaemonError>>, DaemonError> {
        const CALL: &str = "follow events";
        let options = EventsOptions {
            filters: Some([("type".to_owned(), vec!["image".to_owned()])].into()),
            ..EventsOptions::default()
        };
        let events = self.client().await?.events(Some(options));
        let endpoint = self.place().endpoint;
        Ok(events
            .map(move |event| match event {
                Ok(_) => Ok(()),
                Err(error) => Err(failure::of(CALL, deadline::QUERY, &endpoint, &error)),
            })
            .boxed())
    }

    async fn create(&self, name: &str, spec: &ContainerSpec) -> Result<Created, DaemonError> {
        let options = CreateContainerOptions {
            name: Some(name.to_owned()),
            ..CreateContainerOptions::default()
        };
        let body = request::container(spec);
        let created = self
            .call("create container", deadline::CREATE, |docker| async move {
                docker.create_container(Some(options), body).await
            })
            .await?;
        Ok(Created {
            id: created.id,
            warnings: created.warnings,
        })
    }

    async fn inspect(&self, container: &str) -> Result<Option<Inspected>, DaemonError> {
        let inspected = self
            .call("inspect container", deadline::QUERY, |docker| async move {
                docker
                    .inspect_container(container, None::<InspectContainerOptions>)
                    .await
            })
            .await;
        Ok(found(inspected)?.map(report::container))
    }

    async fn attach(&self, container: &str) -> Result<Attached, DaemonError> {
        let target = self.endpoint().map(|endpoint| endpoint.target);
        self.call("attach container", deadline::ATTACH, |docker| async move {
            let target = target.map_err(|error| std::io::Error::other(error.to_string()))?;
            attach::attach(&target, &docker.client_version(), container).await
        })
        .await
    }

    async fn start(&self, container: &str) -> Result<(), DaemonError> {
        self.call("start container", deadline::START, |docker| async move {
            docker
                .start_container(container, None::<StartContainerOptions>)
                .await
        })
        .await
    }

    async fn update(&self, container: &str, resources: &Resources) -> Result<(), DaemonError> {
        let body = request::resources(resources);
        self.call("update container", deadline::UPDATE, |docker| async move {
            docker.update_container(container, body).await
        })
        .await
    }

    async fn wait(&self, container: &str, limit: Duration) -> Result<State, DaemonError> {
        // Whatever it says, or that it says nothing in time: what counts is how the container is after it.
        let waited = self
            .call("wait for container", limit, |docker| async move {
                let mut waited = docker.wait_container(container, None::<WaitContainerOptions>);
                let _ = waited.next().await;
                Ok(())
            })
            .await;
        match waited {
            Ok(()) | Err(DaemonError::Timeout { .. }) => {}
            Err(
                error @ (DaemonError::Unreachable { .. }
                | DaemonError::NotFound { .. }
                | DaemonError::Conflict { .. }
                | DaemonError::Failed { .. }),
            ) => return Err(error),
        }
        match self.inspect(container).await? {
            Some(inspected) => Ok(inspected.state),
            None => Err(DaemonError::NotFound {
                call: "wait for container",
                why: "it was removed meanwhile".to_owned(),
            }),
        }
    }

    async fn kill(&self, container: &str) -> Result<(), DaemonError> {
        let options = KillContainerOptions {
            signal: "SIGKILL".to_owned(),
        };
        let result = self
            .call("kill container", deadline::KILL, |docker| async move {
                docker.kill_container(container, Some(options)).await
            })
            .await;
        match result {
            // It does not run.
            Err(DaemonError::Conflict { .. }) => Ok(()),
            other => gone(other),
        }
    }

    async fn remove(&self, container: &str) -> Result<(), DaemonError> {
        let options = RemoveContainerOptions {
            v: true,
            force: true,
            link: false,
        };
        let result = self
            .call("remove container", deadline::REMOVE, |docker| async move {
                docker.remove_container(container, Some(options)).await
            })
            .await;
        gone(result)
    }

    async fn list(&self, labels: &[String]) -> Result<Vec<Listed>, DaemonError> {
        let options = ListContainersOptions {
            all: true,
            filters: Some([("label".to_owned(), labels.to_vec())].into()),
            ..ListContainersOptions::default()
        };
        let list = self
            .call("list containers", deadline::QUERY, |docker| async move {
                docker.list_containers(Some(options)).await
            })
            .await?;
        Ok(list.into_iter().map(report::listed).collect())
    }

    async fn volume(&self, name: &str) -> Result<Option<Volume>, DaemonError> {
        let volume = self
            .call("inspect volume", deadline::QUERY, |docker| async move {
                docker.inspect_volume(name).await
            })
            .await;
        Ok(found(volume)?.map(report::volume))
    }

    async fn volumes(&self, label: &str) -> Result<Vec<Volume>, DaemonError> {
        let options = ListVolumesOptions {
            filters: Some([("label".to_owned(), vec![label.to_owned()])].into()),
        };
        let list = self
            .call("list volumes", deadline::QUERY, |docker| async move {
                docker.list_volumes(Some(options)).await
            })
            .await?;
        let volumes = list.volumes.unwrap_or_default();
        Ok(volumes.into_iter().map(report::volume).collect())
    }

    async fn create_volume(&self, volume: &Volume) -> Result<Volume, DaemonError> {
        let body = request::volume(volume);
        let made = self
            .call("create volume", deadline::QUERY, |docker| async move {
                docker.create_volume(body).await
            })
            .await?;
        Ok(report::volume(made))
    }

    async fn remove_volume(&self, name: &str) -> Result<(), DaemonError> {
        let result = self
            .call("remove volume", deadline::REMOVE, |docker| async move {
                docker
                    .remove_volume(name, None::<RemoveVolumeOptions>)
                    .await
            })
            .await;
        gone(result)
    }
}
