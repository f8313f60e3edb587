//! The steps from a permit to a running sandbox.
//!
//! create → compare → attach → start → hello. Whatever fails after the create removes the container; what
//! ran in between is nothing but the guest, since programs come over the tether.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
};

use super::{
    Inner,
    container::Container,
    daemon::{ContainerSpec, Daemon, DaemonError, Image, Phase},
    deadline,
    error::EngineError,
    guest_volume::{self, GuestVolume},
    host::Host,
    image,
    sandbox::{About, Sandbox},
    spec::{self, Ask, LABEL_ROLE, LABEL_UID, ROLE_SANDBOX},
    swap::Swap,
    tether::{Tether, TetherError, Violation},
    uid::{UID_COUNT, Uid},
    verify,
};
use crate::{
    policy::Launch,
    types::{SandboxId, clock},
};

/// Attempts at a uid that no other server on the daemon has taken meanwhile.
const UID_ATTEMPTS: usize = 8;

/// How the runtime words that the machine, and not the guest's file, is at its end.
const SHORTAGES: [&str; 4] = [
    "resource temporarily unavailable",
    "cannot allocate memory",
    "no space left",
    "too many open files",
];
/// Exit statuses of PID 1 that say nothing of the guest's file: the end of its input, and a kill from outside.
const UNBLAMED_EXITS: [i64; 2] = [0, 137];
/// Those that only a whole guest has (`guest/src/main.rs`).
const GUEST_EXITS: std::ops::RangeInclusive<i64> = 100..=103;

/// What one attempt came to, other than an error that ends the launch.
enum Attempt {
    Ready(Box<Sandbox>),
    /// Another server's sandbox has the same uid.
    UidTaken,
    /// The guest in the volume is not ours, or not whole.
    BadGuest(EngineError),
}

impl Inner {
    /// Makes a sandbox.
    pub(super) async fn launch(self: Arc<Self>, launch: Launch) -> Result<Sandbox, EngineError> {
        let launched = self.try_launch(&launch).await;
        if let Err(error) = &launched
            && error.may_be_another_daemon()
        {
            self.forget_host();
        }
        launched
    }

    async fn try_launch(&self, launch: &Launch) -> Result<Sandbox, EngineError> {
        let mut host = self.host().await?;
        let image = image::look_up(self.daemon.as_ref(), &launch.image).await?;
        let mut volume = self.guest_volume(&host).await?;
        let mut reseeded = false;
        let mut avoid = HashSet::new();
        for _ in 0..UID_ATTEMPTS {
            self.open()?;
            let uid = self.uids.lease(&avoid).ok_or(EngineError::UidsExhausted {
                count: UID_COUNT as usize,
            })?;
            match self.attempt(launch, &host, &image, &volume, uid).await? {
                Attempt::Ready(sandbox) => return Ok(*sandbox),
                Attempt::UidTaken => avoid = taken_uids(self.daemon.as_ref()).await?,
                Attempt::BadGuest(error) if reseeded => return Err(error),
                Attempt::BadGuest(error) => {
                    tracing::warn!(%error, "the guest's volume is not usable, seeding it anew");
                    reseeded = true;
                    self.host.forget();
                    let now = self.host().await?;
                    if now.info.daemon_id == host.info.daemon_id {
                        self.forget_guest_volume(&volume).await?;
                    } else {
                        self.forget_strange_volume(&volume).await?;
                    }
                    host = now;
                    volume = self.guest_volume(&host).await?;
                }
            }
        }
        Err(EngineError::UidsExhausted {
            count: UID_COUNT as usize,
        })
    }

    async fn attempt(
        &self,
        launch: &Launch,
        host: &Host,
        image: &Image,
        volume: &GuestVolume,
        uid: Uid,
    ) -> Result<Attempt, EngineError> {
        let id = SandboxId::random();
        let seq = self.seq.fetch_add(1, Ordering::Relaxed);
        let name = spec::container_name(self.instance.id(), seq);
        let number = uid.get();
        let asked = spec::sandbox(&Ask {
            launch,
            image,
            host,
            guest_volume: volume.name(),
            uid: number,
            instance: self.instance.id(),
            sandbox: &id,
            created: &clock::wall_clock().to_string(),
        });
        let swap = Swap::of(&self.daemon.place(), &host.info);
        let container = Arc::new(self.create(&name, &asked, Some(uid), swap).await?);
        let outcome = self.bring_up(&container, &name, &asked, number, swap).await;
        match outcome {
            Ok(Some(tether)) => {
                let about = About {
                    image_id: image.id.clone(),
                    image_path: image::path(image),
                    runtime: host.runtime.name.clone(),
                    uid: number,
                    kind: host.runtime.kind,
                    swap,
                    nproc: spec::nproc(&launch.limits, host.runtime.kind),
                    warm_up: launch.warm_up.clone(),
                };
                let sandbox = Sandbox::new(id, about, tether, container);
                Ok(Attempt::Ready(Box::new(sandbox)))
            }
            // Dropping the container removes it in the background.
            Ok(None) => Ok(Attempt::UidTaken),
            Err(error) if guest_is_bad(&error, &container).await => {
                // The volume cannot be replaced while a container holds it. The first error is the one that
                // matters; a failed removal is logged.
                let _ = container.destroy().await;
                Ok(Attempt::BadGuest(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a container and takes ownership of it, or makes sure that none is left.
    pub(super) async fn create(
        &self,
        name: &str,
        asked: &ContainerSpec,
        uid: Option<Uid>,
        swap: Swap,
    ) -> Result<Container, EngineError> {
        // Whoever closes this has swept, or is about to.
        self.open()?;
        // Held from before it is asked for: without an answer nobody knows whether it is made.
        let held = self.leftovers.hold(name);
        let created = match self.daemon.create(name, asked).await {
            Ok(created) => created,
            Err(error) => {
                if let DaemonError::Timeout { .. } | DaemonError::Unreachable { .. } = &error {
                    held.may_follow();
                }
                return Err(error.into());
            }
        };
        let container = Container::own(
            created.id.clone(),
            Arc::clone(&self.daemon),
            self.tasks.clone(),
            uid,
            held,
        );
        verify::warnings(&created, swap)?;
        Ok(container)
    }

    /// `None` where another sandbox on the daemon has the same uid.
    async fn bring_up(
        &self,
        container: &Container,
        name: &str,
        asked: &ContainerSpec,
        uid: u32,
        swap: Swap,
    ) -> Result<Option<Tether>, EngineError> {
        let daemon = self.daemon.as_ref();
        // Attaching early costs nothing: nothing runs before the start, which waits for the other two.
        let (found, alone, attached) = tokio::try_join!(
            inspect(daemon, container.id()),
            alone(daemon, container, uid),
            async { Ok(daemon.attach(container.id()).await?) },
        )?;
        verify::container(name, asked, &found, swap)?;
        if alone == Alone::No {
            return Ok(None);
        }
        let log = attached.log;
        daemon.start(container.id()).await.map_err(start_error)?;
        match Tether::connect(attached.stdout, attached.stdin).await {
            Ok(tether) if tether.ready().uid == uid => Ok(Some(tether)),
            Ok(tether) => Err(EngineError::Mismatch {
                field: "uid inside",
                asked: uid.to_string(),
                found: tether.ready().uid.to_string(),
            }),
            Err(error) => {
                let said = log.quoted();
                tracing::debug!(%error, said, "no hello from a sandbox");
                Err(error.into())
            }
        }
    }
}

async fn inspect(daemon: &dyn Daemon, id: &str) -> Result<super::daemon::Inspected, EngineError> {
    daemon.inspect(id).await?.ok_or_else(|| EngineError::Start {
        why: "the container was gone right after it was made".to_owned(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alone {
    Yes,
    No,
}

/// Whether no other sandbox on the daemon has this uid. Both of two servers that meet give way, so
/// that neither has to believe the other's labels.
async fn alone(daemon: &dyn Daemon, container: &Container, uid: u32) -> Result<Alone, EngineError> {
    let same = daemon
        .list(&[
            format!("{LABEL_ROLE}={ROLE_SANDBOX}"),
            format!("{LABEL_UID}={uid}"),
        ])
        .await?;
    Ok(if same.iter().any(|other| other.id != container.id()) {
        Alone::No
    } else {
        Alone::Yes
    })
}

async fn taken_uids(daemon: &dyn Daemon) -> Result<HashSet<u32>, EngineError> {
    let all = daemon
        .list(&[format!("{LABEL_ROLE}={ROLE_SANDBOX}")])
        .await?;
    Ok(all
        .iter()
        .filter_map(|other| other.labels.get(LABEL_UID)?.parse().ok())
        .collect())
}

fn start_error(error: DaemonError) -> EngineError {
    match error {
        DaemonError::Failed { why, .. }
        | DaemonError::NotFound { why, .. }
        | DaemonError::Conflict { why, .. } => {
            tracing::warn!(why, "a sandbox did not start");
            EngineError::Start { why }
        }
        DaemonError::Unreachable { .. } | DaemonError::Timeout { .. } => error.into(),
    }
}

/// Whether the guest's volume is to blame: its program did not start, died of itself, or is of another version.
async fn guest_is_bad(error: &EngineError, container: &Container) -> bool {
    match error {
        EngineError::Start { why } => {
            why.contains(guest_volume::FILE_NAME)
                && !SHORTAGES.iter().any(|shortage| why.contains(shortage))
        }
        EngineError::Tether(TetherError::Violation(Violation::Protocol)) => true,
        EngineError::Tether(TetherError::Lost) => died_of_itself(container).await,
        EngineError::Tether(
            TetherError::HelloTimeout
            | TetherError::Violation(_)
            | TetherError::Guest(_)
            | TetherError::TooLarge
            | TetherError::TooManyRequests
            | TetherError::Source(_),
        )
        | EngineError::Daemon(_)
        | EngineError::ImageMissing { .. }
        | EngineError::ImageRefused { .. }
        | EngineError::Warning { .. }
        | EngineError::Mismatch { .. }
        | EngineError::RuntimeMissing { .. }
        | EngineError::Platform { .. }
        | EngineError::Podman { .. }
        | EngineError::GuestVolume { .. }
        | EngineError::UidsExhausted { .. }
        | EngineError::Closed
        | EngineError::Fault
        | EngineError::Instance(_) => false,
    }
}

/// Whether PID 1 ended in a way that a whole guest does not. A connection that was cut makes it end too, in good order,
/// and a daemon that restarts kills it: a volume that all sandboxes share must not be given up for that.
async fn died_of_itself(container: &Container) -> bool {
    match container.wait(deadline::LOST_VERDICT).await {
        Ok(state) => {
            state.phase == Phase::Ended
                && !UNBLAMED_EXITS.contains(&state.exit_code)
                && !GUEST_EXITS.contains(&state.exit_code)
        }
        // Whoever cannot be asked accuses nobody.
        Err(_) => false,
    }
}
