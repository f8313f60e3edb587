//! Owns one container on the daemon, and makes sure that it goes.
//!
//! From the moment of its making a container has exactly one owner here. Dropping the owner schedules
//! the removal on the engine's task tracker; nothing may keep only the daemon's id of a container. What cannot be
//! removed now is left to [`super::leftovers`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::{
    daemon::{Daemon, DaemonError, Inspected, Resources, State},
    leftovers::Held,
    uid::Uid,
};

/// Waits between attempts to remove a container: the daemon may be busy with the same removal, or with the
/// death of the container, or be restarting.
const RETRIES: [Duration; 6] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// A container of ours.
pub(super) struct Container {
    id: String,
    daemon: Arc<dyn Daemon>,
    tasks: TaskTracker,
    /// Given back once the container is gone.
    uid: Option<Uid>,
    /// Its name, given up once the container is gone, or cannot be removed for now.
    held: Arc<Held>,
    destroyed: Arc<OnceCell<()>>,
    scheduled: AtomicBool,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Container {
    /// Takes ownership of a container that was just made.
    pub(super) fn own(
        id: String,
        daemon: Arc<dyn Daemon>,
        tasks: TaskTracker,
        uid: Option<Uid>,
        held: Held,
    ) -> Self {
        Self {
            id,
            daemon,
            tasks,
            uid,
            held: Arc::new(held),
            destroyed: Arc::new(OnceCell::new()),
            scheduled: AtomicBool::new(false),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) async fn kill(&self) -> Result<(), DaemonError> {
        self.daemon.kill(&self.id).await
    }

    pub(super) async fn update(&self, resources: &Resources) -> Result<(), DaemonError> {
        self.daemon.update(&self.id, resources).await
    }

    pub(super) async fn inspect(&self) -> Result<Option<Inspected>, DaemonError> {
        self.daemon.inspect(&self.id).await
    }

    pub(super) async fn wait(&self, limit: Duration) -> Result<State, DaemonError> {
        self.daemon.wait(&self.id, limit).await
    }

    /// Removes the container and waits for it; the work goes on when this future is dropped.
    pub(super) async fn destroy(&self) -> Result<(), DaemonError> {
        match self.removal().await {
            Ok(result) => result,
            // The task panicked or the runtime ends: the sweep of the instance is left.
            Err(error) => {
                tracing::warn!(container = self.id, %error, "removal of a container was interrupted");
                Ok(())
            }
        }
    }

    fn removal(&self) -> tokio::task::JoinHandle<Result<(), DaemonError>> {
        self.scheduled.store(true, Ordering::Relaxed);
        let daemon = Arc::clone(&self.daemon);
        let destroyed = Arc::clone(&self.destroyed);
        let uid = self.uid.clone();
        let held = Arc::clone(&self.held);
        let id = self.id.clone();
        self.tasks.spawn(async move {
            let result = destroyed
                .get_or_try_init(|| remove(daemon.as_ref(), &id))
                .await
                .copied();
            match &result {
                Ok(()) => held.is_gone(),
                Err(error) => {
                    tracing::warn!(container = id, %error, "a container could not be removed yet");
                    held.let_go();
                }
            }
            drop((uid, held));
            result
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if !self.scheduled.load(Ordering::Relaxed) && tokio::runtime::Handle::try_current().is_ok()
        {
            drop(self.removal());
        }
    }
}

/// Kills and removes, again and again, until the daemon says that the container is gone.
pub(super) async fn remove(daemon: &dyn Daemon, id: &str) -> Result<(), DaemonError> {
    let mut waits = RETRIES.iter();
    loop {
        let error = match daemon.remove(id).await {
            Ok(()) => match daemon.inspect(id).await {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => DaemonError::Conflict {
                    call: "remove container",
                    why: "it is still there".to_owned(),
                },
                Err(error) => error,
            },
            Err(error) => error,
        };
        match waits.next() {
            Some(wait) => tokio::time::sleep(*wait).await,
            None => return Err(error),
        }
    }
}
