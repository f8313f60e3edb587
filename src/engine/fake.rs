//! A daemon that exists in memory only, records what it is asked, and fails on cue. For tests.
//!
//! It behaves as Docker does where the engine depends on it: names are taken, a volume that a container names and that is
//! not there is made without labels, an empty one is filled from the image, a guest that is not in its
//! volume does not start.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{io::DuplexStream, task::JoinHandle};

use super::scripted_guest::{Greeting, ScriptedGuest};

use super::daemon::{
    Attached, ContainerSpec, Created, Daemon, DaemonError, Image, Info, Inspected, Listed,
    Locality, Log, Mounted, OomFlag, Phase, Place, Seeding, State, Stdio, Version, Volume,
};

/// Bytes in flight on a fake attach stream, each way.
const STREAM_BYTES: usize = 256 * 1024;

/// The calls of [`Daemon`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// [`Daemon::version`]
    Version,
    /// [`Daemon::info`]
    Info,
    /// [`Daemon::image`]
    Image,
    /// [`Daemon::import_image`]
    ImportImage,
    /// [`Daemon::remove_image`]
    RemoveImage,
    /// [`Daemon::create`]
    Create,
    /// [`Daemon::inspect`]
    Inspect,
    /// [`Daemon::attach`]
    Attach,
    /// [`Daemon::start`]
    Start,
    /// [`Daemon::wait`]
    Wait,
    /// [`Daemon::kill`]
    Kill,
    /// [`Daemon::remove`]
    Remove,
    /// [`Daemon::list`]
    List,
    /// [`Daemon::volume`]
    Volume,
    /// [`Daemon::create_volume`]
    CreateVolume,
    /// [`Daemon::remove_volume`]
    RemoveVolume,
}

/// What a call does instead of, or besides, its work. Each is used once.
pub enum Cue {
    /// It fails without having done anything.
    Fail(DaemonError),
    /// It does its work and then fails, as when the answer is lost.
    FailAfter(DaemonError),
    /// It answers after so long.
    Delay(Duration),
    /// [`Verb::Create`] warns of this.
    Warn(String),
    /// [`Verb::Inspect`] reports something else.
    Tamper(Box<dyn FnOnce(&mut Inspected) + Send>),
    /// It behaves as always; to aim at a later call.
    Pass,
}

/// Runs a guest on the container's end of an attach stream. The task is aborted when the container dies.
pub type GuestMaker = dyn Fn(u32, DuplexStream) -> JoinHandle<()> + Send + Sync;

/// The daemon.
pub struct FakeDaemon {
    state: Mutex<FakeState>,
    guest: Box<GuestMaker>,
}

#[derive(Default)]
struct FakeState {
    info: Info,
    images: BTreeMap<String, Image>,
    volumes: BTreeMap<String, (Volume, Filled)>,
    containers: BTreeMap<String, FakeContainer>,
    made: u64,
    calls: Vec<(Verb, String)>,
    cues: HashMap<Verb, VecDeque<Cue>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    Yes,
    No,
}

struct FakeContainer {
    name: String,
    spec: ContainerSpec,
    state: State,
    waiting: Option<DuplexStream>,
    guest: Option<JoinHandle<()>>,
}

impl FakeContainer {
    fn end(&mut self, oom: OomFlag) {
        if let Some(guest) = self.guest.take() {
            guest.abort();
        }
        self.waiting = None;
        if self.state.phase == Phase::Running {
            self.state.phase = Phase::Ended;
            self.state.exit_code = 137;
        }
        self.state.oom = oom;
    }
}

impl Default for FakeDaemon {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs the scripted guest at the container's end of a stream.
#[must_use]
pub fn scripted(greeting: Greeting, uid: u32, mut stream: DuplexStream) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut guest = ScriptedGuest::start_as(uid, greeting);
        // The end of either side is the end of both.
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut guest.io).await;
    })
}

impl std::fmt::Debug for FakeDaemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeDaemon").finish_non_exhaustive()
    }
}

impl FakeDaemon {
    /// A healthy daemon on x86-64 with runc, without images, whose containers run the scripted guest.
    #[must_use]
    pub fn new() -> Self {
        Self::with_guest(|uid, stream| scripted(Greeting::Proper, uid, stream))
    }

    /// The same, with another guest in every container that is started with open streams; it gets the
    /// container's uid.
    #[must_use]
    pub fn with_guest(
        guest: impl Fn(u32, DuplexStream) -> JoinHandle<()> + Send + Sync + 'static,
    ) -> Self {
        let info = Info {
            os_type: "linux".into(),
            architecture: "x86_64".into(),
            kernel: "6.1.0-fake".into(),
            cgroup_version: "2".into(),
            security_options: vec!["name=seccomp,profile=default".into()],
            runtimes: [("runc".to_owned(), "runc".to_owned())].into(),
            default_runtime: "runc".into(),
            daemon_id: "FAKE".into(),
            cpus: 4,
            memory_bytes: 8 << 30,
            ..Info::default()
        };
        Self {
            state: Mutex::new(FakeState {
                info,
                ..FakeState::default()
            }),
            guest: Box::new(guest),
        }
    }

    /// Puts an image on the daemon, with nothing special in it.
    pub fn add_image(&self, reference: &str) {
        self.add_image_like(reference, Image::default());
    }

    /// Puts an image on the daemon; its id is made up.
    pub fn add_image_like(&self, reference: &str, image: Image) {
        let mut state = self.lock();
        state.made += 1;
        let id = format!("sha256:{:064x}", state.made);
        state
            .images
            .insert(reference.to_owned(), Image { id, ..image });
    }

    /// Changes what the daemon says of its host.
    pub fn change_info(&self, change: impl FnOnce(&mut Info)) {
        change(&mut self.lock().info);
    }

    /// Queues a cue for the next call of this kind that has none yet.
    pub fn on(&self, verb: Verb, cue: Cue) {
        self.lock().cues.entry(verb).or_default().push_back(cue);
    }

    /// Every call so far, with what it was about: a reference, a name, an id.
    #[must_use]
    pub fn calls(&self) -> Vec<(Verb, String)> {
        self.lock().calls.clone()
    }

    /// How often a call was made.
    #[must_use]
    pub fn count(&self, verb: Verb) -> usize {
        self.lock()
            .calls
            .iter()
            .filter(|call| call.0 == verb)
            .count()
    }

    /// The containers there are.
    #[must_use]
    pub fn containers(&self) -> Vec<Listed> {
        listed(&self.lock())
    }

    /// The names of the volumes there are.
    #[must_use]
    pub fn volumes(&self) -> Vec<String> {
        self.lock().volumes.keys().cloned().collect()
    }

    /// Takes a volume's content away, as a half-filled one would lack it.
    pub fn spoil_volumes(&self) {
        for (_, filled) in self.lock().volumes.values_mut() {
            *filled = Filled::No;
        }
    }

    /// The container dies, as when the kernel kills its PID 1.
    pub fn die(&self, id: &str, oom: OomFlag) {
        if let Some(container) = self.lock().containers.get_mut(id) {
            container.end(oom);
        }
    }

    fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call and plays its cue; what is left of it is for the call itself.
    async fn enter(&self, verb: Verb, about: &str) -> Result<Option<Cue>, DaemonError> {
        let cue = {
            let mut state = self.lock();
            state.calls.push((verb, about.to_owned()));
            state.cues.get_mut(&verb).and_then(VecDeque::pop_front)
        };
        // Gives other tasks a chance in between, as a real daemon does.
        tokio::task::yield_now().await;
        match cue {
            Some(Cue::Fail(error)) => Err(error),
            Some(Cue::Delay(time)) => {
                tokio::time::sleep(time).await;
                Ok(None)
            }
            Some(Cue::Pass) | None => Ok(None),
            Some(cue @ (Cue::FailAfter(_) | Cue::Warn(_) | Cue::Tamper(_))) => Ok(Some(cue)),
        }
    }
}

/// The error of a cue that comes after the work.
fn after(cue: Option<Cue>) -> Result<(), DaemonError> {
    match cue {
        Some(Cue::FailAfter(error)) => Err(error),
        Some(Cue::Fail(_) | Cue::Delay(_) | Cue::Warn(_) | Cue::Tamper(_) | Cue::Pass) | None => {
            Ok(())
        }
    }
}

fn listed(state: &FakeState) -> Vec<Listed> {
    state
        .containers
        .iter()
        .map(|(id, container)| Listed {
            id: id.clone(),
            name: container.name.clone(),
            labels: container.spec.labels.clone(),
        })
        .collect()
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
        Ok(Version {
            engine: "29.5.1".into(),
            api: "1.53".into(),
            components: [("runc".to_owned(), "1.4.0".to_owned())].into(),
        })
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
        self.lock().images.remove(reference);
        after(cue)
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

    async fn wait(&self, container: &str, limit: Duration) -> Result<State, DaemonError> {
        after(self.enter(Verb::Wait, container).await?)?;
        let end = tokio::time::Instant::now() + limit;
        loop {
            let state = find(&mut self.lock(), "wait for container", container)?
                .state
                .clone();
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
            labels.iter().all(|label| {
                label
                    .split_once('=')
                    .is_some_and(|(name, value)| found.labels.get(name).is_some_and(|v| v == value))
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
