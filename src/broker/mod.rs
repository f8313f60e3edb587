//! The one door: everything that a caller may do passes here, in the same order each time: decide, lease, run,
//! collect, record.
//!
//! No tool reaches the engine, the store or the audit log but through the broker, so that none can forget the
//! policy or the record. What cannot be recorded is not done.

mod collect;
mod execute;
mod fetch;
mod files;
mod gate;
mod install;
mod outcome;
mod outlet;
mod record;
mod refusal;
mod report;
mod room;
mod run;
mod sessions;
mod stages;

use std::{sync::Arc, time::Duration};

use tokio::sync::OnceCell;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use fetch::{DEFAULT_PIECE_BYTES, FetchRequest, MAX_PIECE_BYTES, MAX_RESOURCE_BYTES, Source};
pub use refusal::Refusal;
pub use report::{
    Fetched, FileEntry, FileKind, FileList, InstallReport, NotInstalled, Opened, Opening, Piece,
    RunArtifact, RunReport, SandboxReport, StreamReport, Uploaded,
};
pub use stages::Stages;

pub use crate::artifact::Overwrite;
use crate::{
    artifact::{AllowedDirs, Store, StoreError},
    audit::{Action, AuditError, Log},
    config::Settings,
    egress::Packages,
    engine::Engine,
    policy::{Launch, Permit, Policy},
    pool::{Pool, Taken, Waiting},
    session::{Lease, Sessions},
    types::{Caller, PackageKind},
};
use gate::Gate;
use record::{Draft, Recorder};
use room::Room;

/// How long running calls may take to stop when the server does.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// How often what is kept is looked through for what has expired.
const SWEEP_STORE_EVERY: Duration = Duration::from_mins(5);

/// What the broker works with.
#[derive(Debug)]
pub struct Parts {
    /// Makes sandboxes.
    pub engine: Engine,
    /// Keeps files.
    pub store: Store,
    /// Keeps the record.
    pub audit: Log,
    /// Folders of the user's machine that the operator opened.
    pub local: AllowedDirs,
    /// Knows registries, and keeps what they gave.
    pub packages: Packages,
}

/// The one door.
#[derive(Debug)]
pub struct Broker {
    policy: Policy,
    engine: Engine,
    pool: Pool,
    /// Languages that shall be ready from the start.
    ready: Vec<String>,
    sessions: Sessions<Arc<Room>>,
    store: Store,
    recorder: Arc<Recorder>,
    local: AllowedDirs,
    packages: Packages,
    gate: Gate,
    /// Clean-up under way.
    tasks: TaskTracker,
    /// Fires when the server stops.
    stopping: CancellationToken,
    stopped: OnceCell<()>,
}

impl Broker {
    /// A broker that keeps within `settings`. It speaks to no daemon before the first call that needs one.
    #[must_use]
    pub fn new(settings: &Settings, parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            policy: Policy::new(settings),
            pool: Pool::new(parts.engine.clone(), settings),
            ready: settings.pool.languages.clone(),
            engine: parts.engine,
            sessions: Sessions::new(settings.sessions.max),
            recorder: Arc::new(Recorder::new(parts.audit, parts.store.clone())),
            store: parts.store,
            local: parts.local,
            packages: parts.packages,
            gate: Gate::new(
                settings.concurrency.max_sandboxes,
                settings.concurrency.queue,
            ),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            stopped: OnceCell::new(),
        })
    }

    /// Starts what goes on in the background: the end of sessions that are over and of files that have expired, and
    /// the removal of what servers left that were killed.
    pub fn start(self: &Arc<Self>) -> Result<(), AuditError> {
        self.recorder.start()?;
        self.pool.start();
        let broker = Arc::clone(self);
        self.until_stopped(async move {
            broker.sessions.keep_swept(|ended| broker.bury(ended)).await;
        });
        let broker = Arc::clone(self);
        // Nobody waits for it: who fetches meanwhile has a folder of its own.
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = broker.packages.tidy() {
                tracing::warn!(%error, "what was on its way from a registry could not be removed");
            }
        }));
        let store = self.store.clone();
        self.until_stopped(async move {
            loop {
                match store.sweep().await {
                    Ok(_) | Err(StoreError::Stopping) => {}
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "expired files could not be removed"
                    ),
                }
                tokio::time::sleep(SWEEP_STORE_EVERY).await;
            }
        });
        let engine = self.engine.clone();
        self.until_stopped(async move { engine.keep_reaped().await });
        Ok(())
    }

    /// Has the operator's least number of sandboxes wait from now on. Not for a server of which a user may have many
    /// idle ones: there nothing waits before the first call.
    pub fn stock(&self) {
        for language in &self.ready {
            match self.policy.ready(language) {
                Ok(permit) => self.pool.stock(&permit),
                Err(denial) => {
                    tracing::warn!(%denial, "a language of `pool.languages` is not ready");
                }
            }
        }
    }

    /// How many sandboxes wait, started and not used.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.pool.waiting()
    }

    /// The networks that `caller` may name, beside none.
    #[must_use]
    pub fn networks(&self, caller: &Caller) -> Vec<String> {
        self.policy.networks(caller)
    }

    /// The kinds of packages that `caller` may ask for.
    #[must_use]
    pub fn package_kinds(&self, caller: &Caller) -> Vec<PackageKind> {
        self.policy.package_kinds(caller)
    }

    fn until_stopped(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = stopping.cancelled() => {}
            }
        });
    }

    /// Stops: lets nobody in, ends what runs, destroys every sandbox, and returns when none is left or a bounded time
    /// is over. Whoever calls again waits for the same end.
    pub async fn stop(&self) {
        self.stopped.get_or_init(|| self.end()).await;
    }

    async fn end(&self) {
        self.stopping.cancel();
        self.gate.close();
        self.pool.close();
        self.end_sessions(STOP_PATIENCE).await;
        self.tasks.close();
        if tokio::time::timeout(STOP_PATIENCE, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("calls that do not stop are left to the end of their sandboxes");
        }
        self.engine.close().await;
        self.packages.close();
        self.store.close().await;
        self.recorder.stop();
    }

    /// Refuses arguments that make no sense, and records it: whoever tries out what a tool swallows shows in the log.
    pub(crate) fn refuse_arguments(
        &self,
        caller: &Caller,
        action: Action,
        message: impl Into<String>,
    ) -> Refusal {
        self.record_refusal(caller, action, Refusal::arguments(message))
    }

    /// A call of `action` that panicked: whatever it had found out is lost, but not that it was there.
    pub(crate) fn refuse_panicked(&self, caller: &Caller, action: Action) -> Refusal {
        self.record_refusal(caller, action, Refusal::internal())
    }

    fn record_refusal(&self, caller: &Caller, action: Action, refusal: Refusal) -> Refusal {
        let draft = Draft::new(action, caller);
        match self.recorder.record(draft, Err::<(), _>(refusal)) {
            Err(refusal) => refusal,
            Ok(()) => Refusal::internal(),
        }
    }

    /// Gets a sandbox, unless the call is taken back meanwhile.
    async fn take(
        &self,
        permit: &Permit<Launch>,
        cancelled: &CancellationToken,
    ) -> Result<Taken, Refusal> {
        tokio::select! {
            taken = self.pool.take(permit) => taken.map_err(Into::into),
            () = cancelled.cancelled() => Err(Refusal::cancelled()),
            () = self.stopping.cancelled() => Err(Refusal::closing()),
        }
    }

    /// Waits for a session's turn.
    async fn lease(
        &self,
        caller: &Caller,
        session: &str,
        cancelled: &CancellationToken,
    ) -> Result<Lease<Arc<Room>>, Refusal> {
        tokio::select! {
            lease = self.sessions.lease(caller, session) => lease.map_err(Into::into),
            () = cancelled.cancelled() => Err(Refusal::cancelled()),
        }
    }

    /// Turns a sandbox's answer into the caller's, and ends the session where the sandbox is lost.
    fn answered<T>(
        &self,
        lease: Lease<Arc<Room>>,
        answer: Result<T, crate::engine::tether::TetherError>,
    ) -> Result<T, Refusal> {
        if lease.sandbox.is_lost()
            && let Some(ended) = lease.lost()
        {
            self.bury(ended);
        }
        answer.map_err(Into::into)
    }
}
