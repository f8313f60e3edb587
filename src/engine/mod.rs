//! Everything that speaks to Docker, and the only thing that does.
//!
//! An [`Engine`] turns a [`Permit`] into a [`Sandbox`]: a container whose every field is set (`spec`), which is
//! read back and compared before it may start (`verify`), reached over one attach stream ([`tether`]), and
//! removed whatever happens (`container`, `reap`). It never pulls an image, never runs `docker exec`, never uses the
//! archive API, and never mounts anything but the guest's read-only volume.
//!
//! [`daemon::Daemon`] is the seam: [`docker::Docker`] is the one implementation, [`fake`] the one for tests.

mod container;
pub mod daemon;
mod deadline;
pub mod docker;
mod docker_images;
pub mod endpoint;
mod error;
mod facts;
#[doc(hidden)]
pub mod fake;
pub mod guest_binary;
mod guest_volume;
mod host;
mod image;
mod instance;
mod launch;
mod leftovers;
mod reap;
mod sandbox;
#[doc(hidden)]
pub mod scripted_guest;
pub mod seccomp;
mod shared;
mod spec;
mod swap;
#[cfg(test)]
mod tests;
pub mod tether;
mod uid;
mod verify;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use futures_util::stream::BoxStream;
use tokio_util::task::TaskTracker;

pub use docker_images::DockerImages;
pub use error::EngineError;
pub use facts::{Facts, ImageFact};
pub use host::Machine;
pub use instance::{Instance, InstanceError};
pub use reap::Reaped;
pub use sandbox::Sandbox;
pub use swap::Swap;
pub use uid::{FIRST_UID, UID_COUNT};

use crate::policy::{Launch, Permit};
use daemon::{Daemon, DaemonError};
use guest_volume::{GuestVolume, Made};
use host::Host;
use leftovers::Leftovers;
use shared::Shared;

/// What the operator decides about the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The runtime of every sandbox by its name on the daemon; absent: the daemon's default.
    pub runtime: Option<String>,
}

/// Makes sandboxes. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("instance", self.inner.instance.id())
            .finish_non_exhaustive()
    }
}

struct Inner {
    daemon: Arc<dyn Daemon>,
    instance: Instance,
    options: EngineOptions,
    /// Launches and removals under way.
    tasks: TaskTracker,
    uids: uid::Uids,
    /// Numbers this instance's containers.
    seq: AtomicU64,
    closed: AtomicBool,
    /// What may be left of launches and removals that failed.
    leftovers: Leftovers,
    /// Looked up at the first launch, and again after a failed one.
    host: Shared<Arc<Host>>,
    /// Found or filled at the first launch, by one at a time: this server must not fill two.
    guest: Shared<GuestVolume>,
}

impl Engine {
    /// An engine on this daemon. Speaks to nobody yet: the daemon may be down.
    #[must_use]
    pub fn new(daemon: Arc<dyn Daemon>, instance: Instance, options: EngineOptions) -> Self {
        let leftovers = Leftovers::new(Arc::clone(&daemon), instance.id().clone());
        Self {
            inner: Arc::new(Inner {
                daemon,
                instance,
                options,
                tasks: TaskTracker::new(),
                uids: uid::Uids::default(),
                seq: AtomicU64::new(1),
                closed: AtomicBool::new(false),
                leftovers,
                host: Shared::default(),
                guest: Shared::default(),
            }),
        }
    }

    /// Makes a sandbox and waits until its guest answers. When this future is dropped the launch
    /// goes on to its end in the background, and what it made is destroyed.
    pub async fn launch(&self, permit: &Permit<Launch>) -> Result<Sandbox, EngineError> {
        self.inner.open()?;
        let inner = Arc::clone(&self.inner);
        let launch = permit.action().clone();
        match self.inner.tasks.spawn(inner.launch(launch)).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "a launch was interrupted");
                Err(EngineError::Fault)
            }
        }
    }

    /// The id of the image that a sandbox of `reference` would be made of now.
    pub async fn image_id(&self, reference: &str) -> Result<String, EngineError> {
        let image = image::look_up(self.inner.daemon.as_ref(), reference).await?;
        Ok(image.id)
    }

    /// Something for every change of an image on the daemon, for as long as the daemon tells of them.
    pub async fn image_changes(
        &self,
    ) -> Result<BoxStream<'static, Result<(), DaemonError>>, EngineError> {
        Ok(self.inner.daemon.image_changes().await?)
    }

    /// The machine of the daemon, once a launch has asked for it.
    #[must_use]
    pub fn machine(&self) -> Option<Machine> {
        self.inner.host.peek().map(|host| Machine {
            memory_bytes: host.info.memory_bytes,
            cpus: host.info.cpus,
        })
    }

    /// This server's identity.
    #[must_use]
    pub fn instance(&self) -> &Instance {
        &self.inner.instance
    }

    /// The daemon, for what is not a sandbox's (building images).
    #[must_use]
    pub fn daemon(&self) -> &Arc<dyn Daemon> {
        &self.inner.daemon
    }

    /// What `belljar doctor` wants to know; `references` are the images to look for.
    pub async fn facts(&self, references: &[String]) -> Result<Facts, EngineError> {
        self.inner.facts(references).await
    }

    /// Removes what ended servers of the same state directory left on this daemon.
    pub async fn reap(&self) -> Result<Reaped, EngineError> {
        self.inner.reap().await
    }

    /// Does so at once, a few times more, and for as long as something may be left of them or follow.
    pub async fn keep_reaped(&self) {
        self.inner.keep_reaped().await;
    }

    /// Takes no more launches, waits a bounded time for the clean-up under way, removes by force what is left of
    /// this instance, and gives its instance file back if nothing is.
    pub async fn close(&self) {
        let inner = &self.inner;
        inner.closed.store(true, Ordering::SeqCst);
        inner.leftovers.close();
        inner.tasks.close();
        let settled = tokio::time::timeout(deadline::CLOSE, inner.tasks.wait())
            .await
            .is_ok();
        if !settled {
            tracing::warn!("clean-up takes long, removing what is left by force");
        }
        if inner.instance.retire_unused() {
            // The daemon need not be asked, it may be down.
            return;
        }
        match tokio::time::timeout(deadline::CLOSE, inner.sweep_own()).await {
            Ok(Ok((daemon, 0))) if settled && !inner.leftovers.may_follow() => {
                inner.instance.retire(&daemon);
            }
            // The daemon may still be making what it was asked for: whoever starts next must know where to look.
            Ok(Ok((_, 0))) => tracing::warn!("something may follow, the next start removes it"),
            Ok(Ok((_, failed))) => {
                tracing::warn!(failed, "containers are left, the next start removes them");
            }
            Ok(Err(error)) => tracing::warn!(%error, "containers may be left"),
            Err(_) => tracing::warn!("containers may be left: the daemon is too slow"),
        }
    }
}

impl Inner {
    fn open(&self) -> Result<(), EngineError> {
        if self.closed.load(Ordering::SeqCst) {
            Err(EngineError::Closed)
        } else {
            Ok(())
        }
    }

    /// Removes every container of this instance. Says on which daemon, and how many did not go.
    async fn sweep_own(&self) -> Result<(String, usize), DaemonError> {
        let swept = self.sweep(std::slice::from_ref(self.instance.id())).await?;
        // Afterwards: the first thing is that they go. Of another daemon that has come meanwhile nothing was noted.
        let daemon = self.daemon.info().await?.daemon_id;
        Ok((daemon, swept.values().map(|swept| swept.failed).sum()))
    }

    /// The daemon's host, looked up once.
    async fn host(&self) -> Result<Arc<Host>, EngineError> {
        let runtime = self.options.runtime.as_deref();
        let look = async { Ok(Arc::new(Host::look(self.daemon.as_ref(), runtime).await?)) };
        self.host.get(look).await
    }

    fn forget_host(&self) {
        self.host.forget();
        self.guest.forget();
    }

    /// The guest's volume, found or filled once.
    async fn guest_volume(&self, host: &Host) -> Result<GuestVolume, EngineError> {
        // Before the first container, also where another launch has looked: whoever sweeps after us must know where to
        // look.
        if let Err(error) = self.instance.note_daemon(&host.info.daemon_id) {
            // One that has retired takes no note any more: the directory is not at fault.
            self.open()?;
            return Err(error.into());
        }
        self.guest.get(self.find_or_seed(host)).await
    }

    /// Gives up a volume whose guest does not run, unless somebody else did so already.
    async fn forget_guest_volume(&self, volume: &GuestVolume) -> Result<(), EngineError> {
        self.guest.give_up(volume, self.discard_guest(volume)).await
    }

    /// Gives up a volume that is another daemon's. This one has made an empty one of its name, for the container that was
    /// to have it.
    async fn forget_strange_volume(&self, volume: &GuestVolume) -> Result<(), EngineError> {
        let discard = async {
            self.discard_volume(volume.clone(), Made::Before).await;
            Ok(())
        };
        self.guest.give_up(volume, discard).await
    }
}
