//! What a daemon is told and what it reports, in plain types of our own.
//!
//! A [`ContainerSpec`] must be able to say everything that decides about a sandbox, and nothing that no
//! sandbox may have. What comes from images and containers in here is hostile data.

use std::collections::BTreeMap;

/// Where the daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address, as `unix:///var/run/docker.sock`.
    pub endpoint: String,
    /// Why this one was chosen.
    pub why: String,
    /// Whether the daemon may be this machine's.
    pub locality: Locality,
}

/// How near the daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// It listens on a socket of this machine, though it may pass on to a virtual one.
    LocalSocket,
    /// It is reached over a network: nothing of its machine can be read but through its API.
    Network,
}

/// Versions of the daemon and its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The engine's.
    pub engine: String,
    /// The newest API version it speaks.
    pub api: String,
    /// Its parts by name: `containerd`, `runc`, …
    pub components: BTreeMap<String, String>,
}

impl Version {
    /// The version of Podman, where that is what answers. It names itself so among its components
    /// (`GET /version` of Podman 4.3.1).
    #[must_use]
    pub fn podman(&self) -> Option<&str> {
        self.components.get("Podman Engine").map(String::as_str)
    }
}

/// What the daemon says about its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// `linux` or `windows`.
    pub os_type: String,
    /// As `uname -m` says it.
    pub architecture: String,
    /// The distribution.
    pub operating_system: String,
    /// The kernel's version.
    pub kernel: String,
    /// `1` or `2`.
    pub cgroup_version: String,
    /// `cgroupfs`, `systemd`, `none`.
    pub cgroup_driver: String,
    /// As `name=seccomp,profile=default`.
    pub security_options: Vec<String>,
    /// Its own id, so that two daemons can be told apart.
    pub daemon_id: String,
    /// The runtimes that it can use: name and program.
    pub runtimes: BTreeMap<String, String>,
    /// The one it uses unless told.
    pub default_runtime: String,
    /// Processors.
    pub cpus: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Where it keeps its data.
    pub root_dir: String,
    /// What it warns of.
    pub warnings: Vec<String>,
}

impl Info {
    /// Whether a security option of this name is on.
    #[must_use]
    pub fn has_security(&self, name: &str) -> bool {
        self.security_options.iter().any(|option| {
            option == name
                || option
                    .split(',')
                    .any(|part| part.strip_prefix("name=") == Some(name))
        })
    }
}

/// An image on the daemon. Its configuration is hostile data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// `sha256:…`
    pub id: String,
    /// Paths that Docker would make writable host volumes for.
    pub volumes: Vec<String>,
    /// Names of its labels.
    pub label_names: Vec<String>,
    /// `NAME=value` each.
    pub env: Vec<String>,
    /// `amd64`, `arm64`, …
    pub architecture: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// A container to be made: every field that Docker or an image could otherwise fill in.
///
/// What no sandbox may ever have (privileges, devices, binds, published ports, …) has no field at
/// all; implementations set it closed and report it in [`Inspected::unasked`] when it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// The image's id, never a reference: a tag may move between look-up and create.
    pub image: String,
    /// What runs as PID 1.
    pub entrypoint: Vec<String>,
    /// Its arguments.
    pub command: Vec<String>,
    /// `NAME=value`, or `NAME` alone to take away a variable that the image sets.
    pub env: Vec<String>,
    /// Absolute.
    pub working_dir: String,
    /// `uid:gid`, numeric.
    pub user: String,
    /// The same for all.
    pub hostname: String,
    /// Empty.
    pub domainname: String,
    /// Ours.
    pub labels: BTreeMap<String, String>,
    /// What `docker stop` would send.
    pub stop_signal: String,
    /// `["NONE"]`.
    pub healthcheck: Vec<String>,
    /// How standard input and output behave.
    pub stdio: Stdio,
    /// What the daemon's host grants.
    pub host: HostSpec,
}

/// Standard input and output of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Open, and closed for good once the first client is gone: no terminal.
    Once,
    /// None at all.
    Closed,
    /// Anything else that a daemon may report.
    Other,
}

/// What the daemon's host grants a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Whether the root file system is read-only.
    pub readonly_rootfs: bool,
    /// Whether the daemon removes the container by itself when it ends.
    pub auto_remove: bool,
    /// Capabilities taken away.
    pub cap_drop: Vec<String>,
    /// Capabilities given.
    pub cap_add: Vec<String>,
    /// As `no-new-privileges`.
    pub security_opt: Vec<String>,
    /// `none`.
    pub network_mode: String,
    /// `private`.
    pub ipc_mode: String,
    /// `private`.
    pub cgroupns_mode: String,
    /// `none`.
    pub log_driver: String,
    /// `no`.
    pub restart_policy: String,
    /// In bytes.
    pub memory: i64,
    /// Memory and swap together, in bytes.
    pub memory_swap: i64,
    /// Processes and threads.
    pub pids_limit: i64,
    /// Billionths of a processor.
    pub nano_cpus: i64,
    /// By name.
    pub ulimits: BTreeMap<String, i64>,
    /// `/dev/shm` in bytes.
    pub shm_size: i64,
    /// Mount options by path.
    pub tmpfs: BTreeMap<String, String>,
    /// Added to the kernel's badness.
    pub oom_score_adj: i64,
    /// By name, never the daemon's choice.
    pub runtime: String,
    /// Resolvers.
    pub dns: Vec<String>,
    /// Search domains.
    pub dns_search: Vec<String>,
    /// Volumes.
    pub mounts: Vec<VolumeMount>,
}

/// What of a container can be changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// In bytes.
    pub memory: i64,
    /// Memory and swap together, in bytes.
    pub memory_swap: i64,
    /// Processes and threads.
    pub pids_limit: i64,
    /// Billionths of a processor.
    pub nano_cpus: i64,
}

impl HostSpec {
    /// Takes over what an update sets.
    pub fn update(&mut self, resources: &Resources) {
        let Resources {
            memory,
            memory_swap,
            pids_limit,
            nano_cpus,
        } = *resources;
        self.memory = memory;
        self.memory_swap = memory_swap;
        self.pids_limit = pids_limit;
        self.nano_cpus = nano_cpus;
    }
}

/// A named volume in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMount {
    /// The volume's name.
    pub volume: String,
    /// Where it is mounted.
    pub target: String,
    /// What the container may do with it.
    pub access: Access,
    /// What happens when it is empty.
    pub seeding: Seeding,
}

/// What a container may do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and execute.
    ReadOnly,
    /// Write too.
    ReadWrite,
}

/// What happens to an empty volume that is mounted over a directory of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeding {
    /// It stays as it is. For every sandbox: a hostile image must not be able to fill the volume.
    Never,
    /// The daemon copies the directory's content into it.
    FromImage,
}

/// A container that was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Created {
    /// The daemon's id of it.
    pub id: String,
    /// What the daemon could not do as asked.
    pub warnings: Vec<String>,
}

/// A container as the daemon reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The daemon's id of it.
    pub id: String,
    /// Without the leading slash.
    pub name: String,
    /// Its configuration, read back.
    pub spec: ContainerSpec,
    /// Names of settings that are open although no sandbox may have them.
    pub unasked: Vec<String>,
    /// What is mounted in fact, other than tmpfs.
    pub mounted: Vec<Mounted>,
    /// How it is.
    pub state: State,
}

/// A mount that the daemon made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// `volume`, `bind`, …
    pub kind: String,
    /// The volume's name.
    pub name: String,
    /// Where.
    pub target: String,
    /// What the container may do with it.
    pub access: Access,
}

/// How a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Where it is in its life.
    pub phase: Phase,
    /// Whether the daemon saw the kernel kill for want of memory.
    pub oom: OomFlag,
    /// Of its PID 1, once it has ended.
    pub exit_code: i64,
    /// Why it could not start.
    pub error: String,
}

/// Where a container is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Made, not started.
    #[default]
    Created,
    /// It runs (or is paused, or restarting).
    Running,
    /// It has ended.
    Ended,
}

/// The daemon's `OOMKilled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OomFlag {
    /// Not set, which proves nothing.
    #[default]
    Clear,
    /// Set.
    Set,
}

/// A container in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The daemon's id of it.
    pub id: String,
    /// Without the leading slash.
    pub name: String,
    /// Its labels, which an image may have forged.
    pub labels: BTreeMap<String, String>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_options_are_found_in_both_spellings() {
        let info = Info {
            security_options: vec!["name=seccomp,profile=default".into(), "apparmor".into()],
            ..Info::default()
        };
        assert!(info.has_security("seccomp"));
        assert!(info.has_security("apparmor"));
        assert!(!info.has_security("rootless"));
    }
}
