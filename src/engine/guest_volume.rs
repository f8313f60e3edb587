//! The read-only volume that brings the guest into every container, whatever its image.
//!
//! Nothing of the host is ever mounted, and a hostile image must never be able to fill the volume: the
//! sandboxes mount it read-only and with `NoCopy`.
//!
//! # Theory of operation
//! A volume is filled by Docker itself: an image with nothing but the guest is imported, and a container of it
//! that mounts an empty volume over the guest's directory makes the daemon copy that directory into the volume,
//! modes and all, before the create returns. (The archive API is never used.)
//!
//! Several servers may do so at the same time, and one may die in the middle. So each fills a volume of
//! its own, under a name that nobody else knows, and starts the guest in it once to see that it runs.
//! Only then it makes a second, empty volume, the *pointer*, whose name is fixed by the guest and the
//! runtime and whose label names the filled one. To make a volume that exists gives back the existing one: the
//! first pointer wins, the others remove what they filled. A volume that no pointer names is never used, so a half-filled one
//! never is. What a server leaves that is killed in the middle bears the server's instance in its name, and whoever sweeps
//! after it removes that (`clear_seeding`).

use super::{
    Inner, container,
    daemon::{
        Access, ContainerSpec, Daemon, DaemonError, Image, Phase, Seeding, Stdio, Volume,
        VolumeMount,
    },
    deadline,
    error::EngineError,
    host::{Host, RuntimeKind},
    leftovers::Thing,
    spec::{self, Ask, GUEST_DIR, LABEL_ROLE},
    swap::Swap,
    uid,
};
use crate::{
    policy::Launch,
    types::{InstanceId, Limits, SandboxId, clock},
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::atomic::Ordering};

/// The role of the volumes.
pub(super) const ROLE_VOLUME: &str = "guest-volume";
/// The role of the container that fills one.
const ROLE_SEED: &str = "guest-seed";
/// What the names of all of them begin with.
const PREFIX: &str = "belljar-guest-";
/// Label of a pointer: the volume that it points to.
const LABEL_POINTS_TO: &str = "belljar.volume";
/// Repository of the one-file image, which lives for the time of the seeding.
const SEED_REPOSITORY: &str = "belljar/guest-seed";
/// The guest's file as an error of the runtime quotes it.
pub(super) const FILE_NAME: &str = ".belljar/init";

/// Whose volume the pointer names.
enum Standing {
    Ours,
    /// Another server was first.
    Others,
}

/// A volume that holds a whole guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GuestVolume {
    pointer: String,
    name: String,
}

impl GuestVolume {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Whether the pointer names this volume.
pub(super) async fn is_pointed_to(
    daemon: &dyn Daemon,
    volume: &GuestVolume,
) -> Result<bool, DaemonError> {
    let pointer = daemon.volume(&volume.pointer).await?;
    Ok(pointer.is_some_and(|found| found.labels.get(LABEL_POINTS_TO) == Some(&volume.name)))
}

/// The pointer's name: one per guest and runtime.
pub(super) fn pointer_name(host: &Host) -> String {
    let runtime: String = host
        .runtime
        .name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!("{PREFIX}{}-{runtime}", host.architecture.guest_version())
}

/// Whether a volume was there when it was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// The daemon has said so: once it is removed, none follows.
    Before,
    /// The daemon may still be making it.
    Perhaps,
}

impl Inner {
    /// Finds the volume, or fills one.
    pub(super) async fn find_or_seed(&self, host: &Host) -> Result<GuestVolume, EngineError> {
        let pointer = pointer_name(host);
        if let Some(found) = self.pointed_to(&pointer).await? {
            return Ok(found);
        }
        let volume = GuestVolume {
            name: volume_name(&pointer, self.instance.id()),
            pointer: pointer.clone(),
        };
        match self.fill(host, &volume).await {
            Ok(Standing::Ours) => return Ok(volume),
            Ok(Standing::Others) => self.discard_volume(volume, Made::Before).await,
            Err(error) => {
                self.discard_volume(volume, Made::Perhaps).await;
                return Err(error);
            }
        }
        self.pointed_to(&pointer)
            .await?
            .ok_or_else(|| EngineError::GuestVolume {
                why: format!("the volume {pointer} is not belljar's; remove it with `docker volume rm {pointer}`"),
            })
    }

    /// Fills a volume and makes the pointer to it, if there is none yet.
    async fn fill(&self, host: &Host, volume: &GuestVolume) -> Result<Standing, EngineError> {
        self.seed(host, &volume.name).await?;
        let ours = Volume {
            name: volume.pointer.clone(),
            labels: labels([(LABEL_ROLE, ROLE_VOLUME), (LABEL_POINTS_TO, &volume.name)]),
        };
        let standing = self.daemon.create_volume(&ours).await?;
        if standing.labels.get(LABEL_POINTS_TO) == Some(&volume.name) {
            Ok(Standing::Ours)
        } else {
            Ok(Standing::Others)
        }
    }

    /// The volume that the pointer names, if both are there. A pointer to nothing is removed.
    async fn pointed_to(&self, pointer: &str) -> Result<Option<GuestVolume>, EngineError> {
        let Some(found) = self.daemon.volume(pointer).await? else {
            return Ok(None);
        };
        let name = found
            .labels
            .get(LABEL_POINTS_TO)
            .filter(|name| name.starts_with(pointer));
        if let Some(name) = name
            && let Some(volume) = self.daemon.volume(name).await?
            // A volume that a container's start made because ours was gone carries no label.
            && volume.labels.get(LABEL_ROLE).is_some_and(|role| role == ROLE_VOLUME)
        {
            return Ok(Some(GuestVolume {
                pointer: pointer.to_owned(),
                name: volume.name,
            }));
        }
        self.daemon.remove_volume(pointer).await?;
        Ok(None)
    }

    /// Removes a volume that turned out unusable, and its pointer, so that the next look-up fills a new one.
    pub(super) async fn discard_guest(&self, volume: &GuestVolume) -> Result<(), EngineError> {
        self.daemon.remove_volume(&volume.pointer).await?;
        self.discard_volume(volume.clone(), Made::Before).await;
        Ok(())
    }

    /// Removes a volume, now or as soon as that is possible: it may be in use, or be made only now. One that the pointer
    /// names after all, since only the answer was lost, stays.
    pub(super) async fn discard_volume(&self, volume: GuestVolume, made: Made) {
        let discard = async {
            if is_pointed_to(self.daemon.as_ref(), &volume).await? {
                return Ok(true);
            }
            self.daemon.remove_volume(&volume.name).await?;
            Ok::<_, DaemonError>(made == Made::Before)
        };
        match discard.await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::debug!(volume = volume.name, %error, "a volume stays for now"),
        }
        self.leftovers.owe(Thing::Volume(volume));
    }

    /// Removes what a server that has ended left of a seeding: the one-file image, and a volume that it filled and that
    /// no pointer names. `volumes` are those of [`Self::seeded`]; where they are out of date, and a pointer has come
    /// to one of them since, that pointer leads nowhere and is made anew by whoever meets it.
    pub(super) async fn clear_seeding(
        &self,
        ended: &InstanceId,
        volumes: &[Volume],
    ) -> Result<(), DaemonError> {
        self.daemon.remove_image(&seed_reference(ended)).await?;
        let pointed = |name: &str| {
            let mut targets = volumes
                .iter()
                .filter_map(|volume| volume.labels.get(LABEL_POINTS_TO));
            targets.any(|target| target == name)
        };
        for volume in volumes {
            if seeded_by(&volume.name).as_ref() == Some(ended) && !pointed(&volume.name) {
                self.daemon.remove_volume(&volume.name).await?;
            }
        }
        Ok(())
    }

    /// The guest's volumes on the daemon, of all servers.
    pub(super) async fn seeded(&self) -> Result<Vec<Volume>, DaemonError> {
        self.daemon
            .volumes(&format!("{LABEL_ROLE}={ROLE_VOLUME}"))
            .await
    }

    async fn seed(&self, host: &Host, volume: &str) -> Result<(), EngineError> {
        // One seeding at a time within a server, so that one name is enough.
        let tag = self.instance.id().as_str();
        let reference = seed_reference(self.instance.id());
        let root = root(host).map_err(|error| EngineError::GuestVolume {
            why: error.to_string(),
        })?;
        self.leftovers.forget(&Thing::Image(reference.clone()));
        let imported = self.daemon.import_image(SEED_REPOSITORY, tag, root).await;
        let result = match &imported {
            Ok(()) => self.seed_from(host, volume, &reference).await,
            Err(error) => Err(error.clone().into()),
        };
        let removed = self.daemon.remove_image(&reference).await;
        if let Err(error) = &removed {
            tracing::debug!(reference, %error, "the seed's image stays for now");
        }
        if imported.is_err() || removed.is_err() {
            self.leftovers.owe(Thing::Image(reference));
        }
        result
    }

    async fn seed_from(
        &self,
        host: &Host,
        volume: &str,
        reference: &str,
    ) -> Result<(), EngineError> {
        let failed = |why: &str| EngineError::GuestVolume {
            why: why.to_owned(),
        };
        let image = self
            .daemon
            .image(reference)
            .await?
            .ok_or_else(|| failed("the imported image is not there"))?;
        self.daemon
            .create_volume(&Volume {
                name: volume.to_owned(),
                labels: labels([(LABEL_ROLE, ROLE_VOLUME)]),
            })
            .await?;
        let name =
            spec::container_name(self.instance.id(), self.seq.fetch_add(1, Ordering::Relaxed));
        let asked = self.seed_spec(host, &image, volume);
        let swap = Swap::of(&self.daemon.place(), &host.info);
        // The create copies the image's directory into the volume.
        let container = self.create(&name, &asked, None, swap).await?;
        let ran = self.run_once(container.id()).await;
        // The volume cannot be trusted, nor removed, while the container is there.
        container::remove(self.daemon.as_ref(), container.id()).await?;
        ran
    }

    /// Starts the guest, which ends at once since it has no standard input: proof that it is whole, and
    /// executable by everyone.
    async fn run_once(&self, id: &str) -> Result<(), EngineError> {
        let failed = |why: String| EngineError::GuestVolume { why };
        match self.daemon.start(id).await {
            Ok(()) => {}
            Err(
                DaemonError::Failed { why, .. }
                | DaemonError::NotFound { why, .. }
                | DaemonError::Conflict { why, .. },
            ) => return Err(failed(why)),
            Err(error @ (DaemonError::Unreachable { .. } | DaemonError::Timeout { .. })) => {
                return Err(error.into());
            }
        }
        let state = self.daemon.wait(id, deadline::SEED).await?;
        match state.phase {
            Phase::Ended => Ok(()),
            Phase::Created | Phase::Running => Err(failed("the guest did not end".to_owned())),
        }
    }

    /// As hardened as any sandbox, though it runs nothing but the guest.
    fn seed_spec(&self, host: &Host, image: &Image, volume: &str) -> ContainerSpec {
        let launch = Launch {
            image: image.id.clone(),
            shm_mib: 1,
            limits: Limits::LEAST,
            warm_up: None,
        };
        let mut spec = spec::sandbox(&Ask {
            launch: &launch,
            image,
            host,
            guest_volume: volume,
            uid: uid::FIRST_UID,
            instance: self.instance.id(),
            sandbox: &SandboxId::random(),
            created: &clock::wall_clock().to_string(),
        });
        spec.labels = labels([
            (spec::LABEL_INSTANCE, self.instance.id().as_str()),
            (LABEL_ROLE, ROLE_SEED),
        ]);
        spec.stdio = Stdio::Closed;
        spec.host.mounts = vec![VolumeMount {
            volume: volume.to_owned(),
            target: GUEST_DIR.to_owned(),
            access: Access::ReadOnly,
            seeding: Seeding::FromImage,
        }];
        spec
    }
}

/// A name that nobody else uses, and that says whose the volume is until a pointer names it.
fn volume_name(pointer: &str, instance: &InstanceId) -> String {
    format!("{pointer}-{instance}-{}", SandboxId::random())
}

/// The server that filled the volume of this name, if it is one of a server's.
fn seeded_by(name: &str) -> Option<InstanceId> {
    let mut parts = name.strip_prefix(PREFIX)?.rsplitn(3, '-');
    SandboxId::parse(parts.next()?).ok()?;
    let instance = InstanceId::parse(parts.next()?).ok()?;
    parts.next().map(|_pointer| instance)
}

/// Under which name a server imports the one-file image.
fn seed_reference(instance: &InstanceId) -> String {
    format!("{SEED_REPOSITORY}:{instance}")
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// The root file system of the one-file image.
///
/// The volume is shared by all sandboxes, so nobody may read the file where the runtime allows it: a file
/// that can be opened is a channel between tenants (`flock`), and one that cannot be read makes PID 1
/// non-dumpable from its first instruction. gVisor opens the file as the user itself and must be able to.
fn root(host: &Host) -> std::io::Result<Bytes> {
    let (directory, file) = match host.runtime.kind {
        RuntimeKind::HostKernel => (0o711, 0o111),
        RuntimeKind::Gvisor => (0o755, 0o555),
    };
    let mut tar = tar::Builder::new(Vec::new());
    let mut append = |path: &str, kind: tar::EntryType, mode: u32, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content)
    };
    append(".belljar/", tar::EntryType::Directory, directory, &[])?;
    append(
        FILE_NAME,
        tar::EntryType::Regular,
        file,
        host.architecture.guest(),
    )?;
    Ok(tar.into_inner()?.into())
}
