//! The fake daemon's answers.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream, stream::BoxStream};
use tokio::sync::mpsc;

use super::{Cue, FakeContainer, FakeDaemon, FakeState, Filled, Verb, listed};
use crate::engine::daemon::{
    Attached, ContainerSpec, Created, Daemon, DaemonError, Image, Info, Inspected, Listed,
    Locality, Log, Mounted, OomFlag, Phase, Place, Resources, Seeding, State, Stdio, Version,
    Volume,
};

/// Bytes in flight on a fake attach stream, each way.
const STREAM_BYTES: usize = 256 * 1024;

/// The error of a cue that comes after the work.
fn after(cue: Option<Cue>) -> Result<(), DaemonError> {
    match cue {
        Some(Cue::FailAfter(error)) => Err(error),
        Some(
            Cue::Fail(_) | Cue::Delay(_) | Cue::Warn(_) | Cue::Tamper(_) | Cue::Panic | Cue::Pass,
        )
        | None => Ok(()),
    }
}

fn find<'a>(
    state: &'a mut FakeState,
    call: &'static str,
    container: &str,
) -> Result<&'a mut FakeContainer, DaemonError> {
    state
        .containers
        .iter_mut()
        .find(|(id, found)| *id == container || found.name == container)
        .map(|(_, found)| found)
        .ok_or_else(|| DaemonError::NotFound {
            call,
            why: format!("no such container: {container}"),
        })
}

#[async_trait]
impl Daemon for FakeDaemon {
    fn place(&self) -> Place {
        Place {
            endpoint: "fake://".into(),
            why: "a test".into(),
            locality: Locality::Network,
        }
    }

    async fn version(&self) -> Result<Version, DaemonError> {
        after(self.enter(Verb::Version, "").await?)?;
        Ok(self.lock().version.clone())
    }

    async fn info(&self) -> Result<Info, DaemonError> {
        after(self.enter(Verb::Info, "").await?)?;
        Ok(self.lock().info.clone())
    }

    async fn image(&self, reference: &str) -> Result<Option<Image>, DaemonError> {
        after(self.enter(Verb::Image, reference).await?)?;
        Ok(self.lock().images.get(reference).cloned())
    }

    async fn import_image(
        &self,
        repository: &str,
        tag: &str,
        _root: Bytes,
    ) -> Result<(), DaemonError> {
        let reference = format!("{repository}:{tag}");
        let cue = self.enter(Verb::ImportImage, &reference).await?;
        self.add_image(&reference);
        after(cue)
    }

    async fn remove_image(&self, reference: &str) -> Result<(), DaemonError> {
        let cue = self.enter(Verb::RemoveImage, reference).await?;
        {
            let mut state = self.lock();
            state.images.remove(reference);
            state.image_changed();
        }
        after(cue)
    }

    async fn image_changes(
        &self,
    ) -> Result<BoxStream<'static, Result<(), DaemonError>>, DaemonError> {
        after(self.enter(Verb::ImageChanges, "").await?)?;
        let (follower, changes) = mpsc::unbounded_channel();
        self.lock().followers.push(follower);
        let next = |mut changes: mpsc::UnboundedReceiver<_>| async {
            changes.recv().await.map(|change| (change, changes))
        };
        Ok(stream::unfold(changes, next).boxed())
    }

    async fn create(&self, name: &str, spec: &ContainerSpec) -> Result<Created, DaemonError> {
        let cue = self.enter(Verb::Create, name).await?;
        let id = {
            let mut state = self.lock();
            if state.containers.values().any(|other| other.name == name) {
                return Err(DaemonError::Conflict {
                    call: "create container",
                    why: format!("the name {name} is in use"),
                });
            }
            for mount in &spec.host.mounts {
                let (_, filled) = state
                    .volumes
                    .entry(mount.volume.clone())
                    .or_insert_with(|| {
                        let made = Volume {
                            name: mount.volume.clone(),
                            ..Volume::default()
                        };
                        (made, Filled::No)
                    });
                if mount.seeding == Seeding::FromImage {
                    *filled = Filled::Yes;
                }
            }
            state.made += 1;
            let id = format!("{:064x}", state.made);
            let container = FakeContainer {
                name: name.to_owned(),
                spec: spec.clone(),
                state: State::default(),
                waiting: None,
                guest: None,
            };
            state.containers.insert(id.clone(), container);
            id
        };
        match cue {
            Some(Cue::Warn(warning)) => Ok(Created {
                id,
                warnings: vec![warning],
            }),
            other => after(other).map(|()| Created {
                id,
                warnings: Vec::new(),
            }),
        }
    }

    async fn inspect(&self, container: &str) -> Result<Option<Inspected>, DaemonError> {
        let cue = self.enter(Verb::Inspect, container).await?;
        let mut state = self.lock();
        let id = state
            .containers
            .iter()
            .find(|(id, found)| *id == container || found.name == container)
            .map(|(id, _)| id.clone());
        let Some(id) = id else {
            if let Some(tamper @ Cue::Tamper(_)) = cue {
                // There is nothing to tamper with: somebody only looks whether an earlier container is gone.
                let waiting = state.cues.entry(Verb::Inspect).or_default();
                waiting.push_front(tamper);
                return Ok(None);
            }
            return after(cue).map(|()| None);
        };
        let found = find(&mut state, "inspect container", &id)?;
        let mut inspected = Inspected {
            id,
            name: found.name.clone(),
            spec: found.spec.clone(),
            unasked: Vec::new(),
            mounted: found
                .spec
                .host
                .mounts
                .iter()
                .map(|mount| Mounted {
                    kind: "volume".into(),
                    name: mount.volume.clone(),
                    target: mount.target.clone(),
                    access: mount.access,
                })
                .collect(),
            state: found.state.clone(),
        };
        match cue {
            Some(Cue::Tamper(change)) => change(&mut inspected),
            other => after(other)?,
        }
        Ok(Some(inspected))
    }

    async fn attach(&self, container: &str) -> Result<Attached, DaemonError> {
        let cue = self.enter(Verb::Attach, container).await?;
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        find(&mut self.lock(), "attach container", container)?.waiting = Some(theirs);
        after(cue)?;
        let (stdout, stdin) = tokio::io::split(ours);
        Ok(Attached {
            stdout: Box::new(stdout),
            stdin: Box::new(stdin),
            log: Log::default(),
        })
    }

    async fn start(&self, container: &str) -> Result<(), DaemonError> {
        let cue = self.enter(Verb::Start, container).await?;
        {
            let mut state = self.lock();
            let mounts = find(&mut state, "start container", container)?
                .spec
                .host
                .mounts
                .clone();
            let whole = mounts.iter().all(|mount| {
                state
                    .volumes
                    .get(&mount.volume)
                    .is_some_and(|(_, filled)| *filled == Filled::Yes)
            });
            if !whole {
                return Err(DaemonError::Failed {
                    call: "start container",
                    why: "exec: \"/.belljar/init\": no such file or directory".into(),
                });
            }
            let found = find(&mut state, "start container", container)?;
            found.state.phase = match found.spec.stdio {
                Stdio::Closed => Phase::Ended,
                Stdio::Once | Stdio::Other => Phase::Running,
            };
            let uid = found.spec.user.split(':').next().unwrap_or_default();
            let uid = uid.parse().unwrap_or_default();
            if let Some(stream) = found.waiting.take() {
                found.guest = Some((self.guest)(uid, stream));
            }
        }
        after(cue)
    }

    async fn update(&self, container: &str, resources: &Resources) -> Result<(), DaemonError> {
        let cue = self.enter(Verb::Update, container).await?;
        find(&mut self.lock(), "update container", container)?
            .spec
            .host
            .update(resources);
        after(cue)
    }

    async fn wait(&self, container: &str, limit: Duration) -> Result<State, DaemonError> {
        after(self.enter(Verb::Wait, container).await?)?;
        let end = tokio::time::Instant::now() + limit;
        loop {
            let state = {
                let mut state = self.lock();
                let found = find(&mut state, "wait for container", container)?;
                // A container ends with its PID 1.
                if found
                    .guest
                    .as_ref()
                    .is_some_and(tokio::task::JoinHandle::is_finished)
                {
                    let oom = found.state.oom;
                    found.end(oom);
                }
                found.state.clone()
            };
            if state.phase != Phase::Running || tokio::time::Instant::now() >= end {
                return Ok(state);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn kill(&self, container: &str) -> Result<(), DaemonError> {
        let cue = self.enter(Verb::Kill, container).await?;
        if let Ok(found) = find(&mut self.lock(), "kill container", container) {
            let oom = found.state.oom;
            found.end(oom);
        }
        after(cue)
    }

    async fn remove(&self, container: &str) -> Result<(), DaemonError> {
        let cue = self.enter(Verb::Remove, container).await?;
        self.lock().containers.retain(|id, found| {
            let other = id != container && found.name != container;
            if !other {
                found.end(OomFlag::Clear);
            }
            other
        });
        after(cue)
    }

    async fn list(&self, labels: &[String]) -> Result<Vec<Listed>, DaemonError> {
        after(self.enter(Verb::List, &labels.join(" ")).await?)?;
        let mut all = listed(&self.lock());
        all.retain(|found| {
            labels.iter().all(|label| match label.split_once('=') {
                Some((name, value)) => found.labels.get(name).is_some_and(|v| v == value),
                None => found.labels.contains_key(label),
            })
        });
        Ok(all)
    }

    async fn volume(&self, name: &str) -> Result<Option<Volume>, DaemonError> {
        after(self.enter(Verb::Volume, name).await?)?;
        Ok(self
            .lock()
            .volumes
            .get(name)
            .map(|(volume, _)| volume.clone()))
    }

    async fn volumes(&self, label: &str) -> Result<Vec<Volume>, DaemonError> {
        after(self.enter(Verb::Volumes, label).await?)?;
        let (name, value) = label.split_once('=').unwrap_or((label, ""));
        let state = self.lock();
        let all = state.volumes.values().map(|(volume, _)| volume);
        Ok(all
            .filter(|volume| volume.labels.get(name).is_some_and(|found| found == value))
            .cloned()
            .collect())
    }

    async fn create_volume(&self, volume: &Volume) -> Result<Volume, DaemonError> {
        let cue = self.enter(Verb::CreateVolume, &volume.name).await?;
        let standing = self
            .lock()
            .volumes
            .entry(volume.name.clone())
            .or_insert_with(|| (volume.clone(), Filled::No))
            .0
            .clone();
        after(cue).map(|()| standing)
    }

    async fn remove_volume(&self, name: &str) -> Result<(), DaemonError> {
        let cue = self.enter(Verb::RemoveVolume, name).await?;
        {
            let mut state = self.lock();
            let used = state.containers.values().any(|found| {
                found
                    .spec
                    .host
                    .mounts
                    .iter()
                    .any(|mount| mount.volume == name)
            });
            if used {
                return Err(DaemonError::Conflict {
                    call: "remove volume",
                    why: "volume is in use".into(),
                });
            }
            state.volumes.remove(name);
        }
        after(cue)
    }
}
