//! One running sandbox, from the outside.
//!
//! Whoever drops a [`Sandbox`] has its container destroyed in the background; whoever must know that it
//! is gone calls [`Sandbox::destroy`]. A sandbox never outlives the server: when the server's end of the tether
//! closes, the guest ends itself.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::{
    container::Container,
    daemon::OomFlag,
    deadline,
    error::EngineError,
    host::RuntimeKind,
    spec,
    swap::Swap,
    tether::{
        Door, FileStream, FromWarm, Listing, Run, Tether, TetherError,
        message::{Entry, Hidden, RunSpec, WarmSpec},
    },
    verify,
};
use crate::{
    policy::{Launch, Permit, WORKSPACE, WarmUp},
    types::SandboxId,
};

/// How long a sandbox that has waited may take to show that it still answers.
const CHECK: Duration = Duration::from_secs(2);

/// A hardened container with its guest, ready for programs.
#[derive(Debug)]
pub struct Sandbox {
    id: SandboxId,
    about: About,
    tether: Tether,
    container: Arc<Container>,
}

/// What is known of a sandbox from its making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) image_id: String,
    pub(super) image_path: Option<String>,
    pub(super) runtime: String,
    pub(super) uid: u32,
    pub(super) kind: RuntimeKind,
    pub(super) nproc: Option<u64>,
    pub(super) swap: Swap,
    pub(super) warm_up: Option<WarmUp>,
}

impl Sandbox {
    pub(super) fn new(
        id: SandboxId,
        about: About,
        tether: Tether,
        container: Arc<Container>,
    ) -> Self {
        Self {
            id,
            about,
            tether,
            container,
        }
    }

    /// Its id: the value of the container's label `belljar.session`.
    #[must_use]
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// The id of the image it was made of, `sha256:…`.
    #[must_use]
    pub fn image_id(&self) -> &str {
        &self.about.image_id
    }

    /// The `PATH` that the image's configuration sets: hostile data, good for programs inside only.
    #[must_use]
    pub fn image_path(&self) -> Option<&str> {
        self.about.image_path.as_deref()
    }

    /// The runtime's name on the daemon.
    #[must_use]
    pub fn runtime(&self) -> &str {
        &self.about.runtime
    }

    /// The uid, and gid, of everything inside. Distinct among the live sandboxes of the daemon.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.about.uid
    }

    /// Runs a program; see [`Tether::run`]. [`RunSpec::nproc`] is decided here, by the runtime.
    pub async fn run(&self, mut spec: RunSpec, stdin: Option<Bytes>) -> Result<Run, TetherError> {
        spec.nproc = self.about.nproc;
        self.tether.run(spec, stdin).await
    }

    /// Has the interpreter of the image's own language started, to wait for the first program; returns once it waits,
    /// or will not. See [`Tether::warm_up`]. Costs processor time inside, nothing else: a run may be asked for at any
    /// time, also before this returns.
    ///
    /// # Errors
    /// As [`Tether::warm_up`]. Where nothing can wait, [`FromWarm::Failed`] is the answer, at once.
    pub async fn warm_up(&self) -> Result<FromWarm, TetherError> {
        let Some(warm_up) = &self.about.warm_up else {
            return Ok(FromWarm::Failed);
        };
        let spec = WarmSpec {
            argv: warm_up.argv.clone(),
            env: warm_up.environment(self.about.uid, self.image_path()),
            cwd: WORKSPACE.to_owned(),
            nproc: self.about.nproc,
        };
        self.tether.warm_up(spec).await
    }

    /// Writes a file into the workspace; see [`Tether::write`].
    pub async fn write(
        &self,
        path: &[u8],
        size: u64,
        source: impl AsyncRead + Send,
    ) -> Result<Entry, TetherError> {
        self.tether.write(path, size, source).await
    }

    /// Opens a file of the workspace; see [`Tether::read`].
    pub async fn read(
        &self,
        path: &[u8],
        offset: u64,
        length: u64,
    ) -> Result<FileStream, TetherError> {
        self.tether.read(path, offset, length).await
    }

    /// Lists the workspace; see [`Tether::list`].
    pub async fn list(
        &self,
        path: &[u8],
        max_entries: u32,
        hidden: Hidden,
    ) -> Result<Listing, TetherError> {
        self.tether.list(path, max_entries, hidden).await
    }

    /// Opens the way out for the programs inside; see [`Tether::open_egress`]. Who serves the connections decides what
    /// they reach: the container itself has no network.
    ///
    /// # Errors
    /// As [`Tether::open_egress`].
    pub async fn open_egress(&self, trust: Vec<u8>) -> Result<Door, TetherError> {
        self.tether.open_egress(trust).await
    }

    /// Resolves when the connection to the guest has ended, for whatever reason. Nothing but
    /// [`Self::destroy`] makes sense then.
    pub async fn lost(&self) {
        self.tether.lost().await;
    }

    /// Whether the connection to the guest has ended.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.tether.is_lost()
    }

    /// Whether the guest answers, asked now and for a bounded time.
    pub async fn answers(&self) -> bool {
        self.tether.answers(CHECK).await
    }

    /// How long ago it was seen that the guest answers.
    #[must_use]
    pub fn answered_ago(&self) -> Duration {
        self.tether.answered_ago()
    }

    /// Whether [`Self::raise`] can work: not under a runtime with a kernel of its own, which would not notice.
    #[must_use]
    pub fn can_be_raised(&self) -> bool {
        match self.about.kind {
            RuntimeKind::HostKernel => true,
            RuntimeKind::Gvisor => false,
        }
    }

    /// Raises memory, processors and processes to those of `permit`, and reads back whether it is so. None of
    /// them may be below what the sandbox has, and everything else in the permit must be what it was made with: the
    /// caller's to see to. After an error the sandbox is good for nothing but to be destroyed.
    pub async fn raise(&self, permit: &Permit<Launch>) -> Result<(), EngineError> {
        let launch = Launch {
            // The memory of the interpreter that waits here, whichever the permit speaks of.
            warm_up: self.about.warm_up.clone(),
            ..permit.action().clone()
        };
        let wanted = spec::resources(&launch, self.about.kind);
        self.container.update(&wanted).await?;
        let found = self.container.inspect().await?;
        let found = found.ok_or_else(|| EngineError::Start {
            why: "the container was gone while it was raised".to_owned(),
        })?;
        verify::resources(&wanted, &found.spec.host, self.about.swap)
    }

    /// Kills everything inside, at once, without the guest's help.
    pub async fn kill(&self) -> Result<(), EngineError> {
        Ok(self.container.kill().await?)
    }

    /// Whether the daemon says that the kernel killed in here for want of memory. For a sandbox that
    /// died by itself: waits a little until the daemon has noticed. The flag stays once it is set, so it says
    /// nothing about which run of a session it was; and a kill of our own is never an OOM.
    pub async fn oom_killed_by_daemon(&self) -> bool {
        match self.container.wait(deadline::OOM_VERDICT).await {
            Ok(state) => state.oom == OomFlag::Set,
            Err(error) => {
                tracing::debug!(%error, "no verdict of the daemon on a dead sandbox");
                false
            }
        }
    }

    /// Kills and removes the container; returns once it is gone. It goes on to the end also when this
    /// future is dropped, and calling it again waits for the same end.
    pub async fn destroy(&self) -> Result<(), EngineError> {
        Ok(self.container.destroy().await?)
    }
}
