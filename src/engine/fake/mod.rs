//! A daemon that exists in memory only, records what it is asked, and fails on cue. For tests.
//!
//! It behaves as Docker does where the engine depends on it: names are taken, a volume that a container names and that is
//! not there is made without labels, an empty one is filled from the image, a guest that is not in its
//! volume does not start.

mod calls;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{io::DuplexStream, sync::mpsc::UnboundedSender, task::JoinHandle};

#[cfg(doc)]
use super::daemon::Daemon;
use super::{
    daemon::{
        ContainerSpec, DaemonError, Image, Info, Inspected, Listed, OomFlag, Phase, State, Version,
        Volume,
    },
    scripted_guest::{Greeting, ScriptedGuest},
};

/// How often a call that hangs looks whether it may go on.
const STALLED: Duration = Duration::from_millis(2);

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
    /// [`Daemon::image_changes`]
    ImageChanges,
    /// [`Daemon::create`]
    Create,
    /// [`Daemon::inspect`]
    Inspect,
    /// [`Daemon::attach`]
    Attach,
    /// [`Daemon::start`]
    Start,
    /// [`Daemon::update`]
    Update,
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
    /// [`Daemon::volumes`]
    Volumes,
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
    /// It panics, as a fault in the server's own code would.
    Panic,
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
    version: Version,
    images: BTreeMap<String, Image>,
    volumes: BTreeMap<String, (Volume, Filled)>,
    containers: BTreeMap<String, FakeContainer>,
    made: u64,
    calls: Vec<(Verb, String)>,
    cues: HashMap<Verb, VecDeque<Cue>>,
    stalled: bool,
    /// Those who follow the changes of images.
    followers: Vec<UnboundedSender<Result<(), DaemonError>>>,
}

impl FakeState {
    fn image_changed(&mut self) {
        self.followers
            .retain(|follower| follower.send(Ok(())).is_ok());
    }
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
pub fn scripted(greeting: Greeting, uid: u32, stream: DuplexStream) -> JoinHandle<()> {
    tokio::spawn(async move {
        let guest = ScriptedGuest::start_as(uid, greeting);
        let (mut from_server, mut to_server) = tokio::io::split(stream);
        let (mut from_guest, mut to_guest) = tokio::io::split(guest.io);
        // The end of either side is the end of both.
        tokio::select! {
            _ = tokio::io::copy(&mut from_server, &mut to_guest) => {}
            _ = tokio::io::copy(&mut from_guest, &mut to_server) => {}
        }
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
        let version = Version {
            engine: "29.5.1".into(),
            api: "1.53".into(),
            components: [("runc".to_owned(), "1.4.0".to_owned())].into(),
        };
        Self {
            state: Mutex::new(FakeState {
                info,
                version,
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
        state.image_changed();
    }

    /// Takes an image away, as a user would.
    pub fn forget_image(&self, reference: &str) {
        let mut state = self.lock();
        state.images.remove(reference);
        state.image_changed();
    }

    /// Changes what the daemon says of its host.
    pub fn change_info(&self, change: impl FnOnce(&mut Info)) {
        change(&mut self.lock().info);
    }

    /// Changes what the daemon says of its version.
    pub fn change_version(&self, change: impl FnOnce(&mut Version)) {
        change(&mut self.lock().version);
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

    /// The references of the images there are.
    #[must_use]
    pub fn images(&self) -> Vec<String> {
        self.lock().images.keys().cloned().collect()
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

    /// Whether every call from now on hangs, those of waiting included, until this is taken back.
    pub fn stall(&self, stalled: bool) {
        self.lock().stalled = stalled;
    }

    /// The daemon restarts: every container dies, and whoever followed its events is cut off.
    pub fn restart(&self) {
        let mut state = self.lock();
        for container in state.containers.values_mut() {
            container.end(OomFlag::Clear);
        }
        state.followers.clear();
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
        while self.lock().stalled {
            tokio::time::sleep(STALLED).await;
        }
        match cue {
            Some(Cue::Fail(error)) => Err(error),
            Some(Cue::Delay(time)) => {
                tokio::time::sleep(time).await;
                Ok(None)
            }
            #[expect(clippy::panic, reason = "asked for by a test")]
            Some(Cue::Panic) => panic!("on cue"),
            Some(Cue::Pass) | None => Ok(None),
            Some(cue @ (Cue::FailAfter(_) | Cue::Warn(_) | Cue::Tamper(_))) => Ok(Some(cue)),
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
