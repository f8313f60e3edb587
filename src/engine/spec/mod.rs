//! What every sandbox container must be: from a permit to a container's whole specification.
//!
//! Pure. Every field that Docker, an image or a daemon's configuration could otherwise fill in is set here,
//! and nothing in it comes from a caller but the permit's limits. `HARDENING` names the row that a
//! test keeps.

use std::collections::BTreeMap;

use super::{
    daemon::{Access, ContainerSpec, HostSpec, Image, Resources, Seeding, Stdio, VolumeMount},
    host::{AppArmor, Host, RuntimeKind},
    seccomp,
};
use crate::{
    policy::Launch,
    types::{InstanceId, Limits, MIB, SandboxId},
};

/// What all labels of ours begin with.
pub(super) const LABEL_PREFIX: &str = "belljar.";
/// Label: the server that owns a container.
pub(super) const LABEL_INSTANCE: &str = "belljar.instance";
/// Label: what a container or volume is for.
pub(super) const LABEL_ROLE: &str = "belljar.role";
/// Label: the sandbox's id, which is the session's or run's once leased.
pub(super) const LABEL_SESSION: &str = "belljar.session";
/// Label: when it was made, RFC 3339.
pub(super) const LABEL_CREATED: &str = "belljar.created";
/// Label: the uid of a sandbox.
pub(super) const LABEL_UID: &str = "belljar.uid";
/// The role of a sandbox.
pub(super) const ROLE_SANDBOX: &str = "sandbox";

/// The hostname of every sandbox: a container's own would leak its id.
const HOSTNAME: &str = "sandbox";
/// Where the guest's volume is mounted.
pub(super) const GUEST_DIR: &str = "/.belljar";
/// The guest.
pub(super) const GUEST_PATH: &str = "/.belljar/init";
/// The working directory, and the only place to build and install things.
const WORKSPACE: &str = "/workspace";

/// Where pseudo-terminals are made.
const TERMINALS: &str = "/dev/pts";
/// What covers [`TERMINALS`]: an empty folder that nobody writes to. The kernel counts pseudo-terminals over all
/// containers of a machine (`kernel.pty.max`) and charges them to none; stops one sandbox from taking the last of them
/// from every other container.
const NO_TERMINALS: &str = "size=4096,nr_inodes=1,mode=0555,uid=0,gid=0,nosuid,nodev,noexec";

/// Size of `/tmp` in MiB. Stops temporary files from filling the host's memory.
const TMP_MIB: u64 = 64;
/// Memory for the guest itself, in MiB, on top of what the program gets.
const GUEST_MIB: u64 = 32;
/// Files and directories per MiB of a tmpfs: one per page. Inodes are memory of the kernel's; stops a
/// million empty files.
const INODES_PER_MIB: u64 = 256;
/// The least number of files, so that a small workspace is still of use.
const MIN_INODES: u64 = 4096;
/// Open files per process. Stops one program from using up the host's file table.
const NOFILE: i64 = 1024;
/// How much sooner than anything else on the host the kernel shall kill a sandbox; the guest raises its children's
/// further, so that the program goes before PID 1.
const OOM_SCORE_ADJ: i64 = 500;
/// gVisor's own threads count against the cgroup's pids, and its kernel dies with the sandbox where they
/// run out: inside, the guest bounds processes with `RLIMIT_NPROC`.
const GVISOR_MIN_PIDS: u32 = 1024;
/// What gVisor takes of the cgroup's pids for each process inside, at most: some 2.2 were counted.
const GVISOR_PIDS_EACH: u32 = 3;
/// `PATH` of PID 1, which starts nothing by name; programs get their own.
const INIT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a sandbox is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) launch: &'a Launch,
    pub(super) image: &'a Image,
    pub(super) host: &'a Host,
    pub(super) guest_volume: &'a str,
    pub(super) uid: u32,
    pub(super) instance: &'a InstanceId,
    pub(super) sandbox: &'a SandboxId,
    pub(super) created: &'a str,
}

/// The container's specification.
pub(super) fn sandbox(ask: &Ask<'_>) -> ContainerSpec {
    let labels = [
        (LABEL_INSTANCE, ask.instance.as_str()),
        (LABEL_ROLE, ROLE_SANDBOX),
        (LABEL_SESSION, ask.sandbox.as_str()),
        (LABEL_CREATED, ask.created),
        (LABEL_UID, &ask.uid.to_string()),
    ];
    ContainerSpec {
        image: ask.image.id.clone(),
        entrypoint: vec![GUEST_PATH.to_owned()],
        command: command(ask.host.runtime.kind),
        env: env(ask.image),
        working_dir: WORKSPACE.to_owned(),
        user: format!("{0}:{0}", ask.uid),
        hostname: HOSTNAME.to_owned(),
        domainname: String::new(),
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        stop_signal: "SIGKILL".to_owned(),
        healthcheck: vec!["NONE".to_owned()],
        stdio: Stdio::Once,
        host: host(ask),
    }
}

/// The guest's arguments. Under gVisor nothing protects PID 1 from the processes beside it.
fn command(runtime: RuntimeKind) -> Vec<String> {
    match runtime {
        RuntimeKind::HostKernel => Vec::new(),
        RuntimeKind::Gvisor => vec![belljar_wire::STUB_ARGUMENT.to_owned()],
    }
}

fn host(ask: &Ask<'_>) -> HostSpec {
    let shm = u64::from(ask.launch.shm_mib);
    let workspace = u64::from(ask.launch.limits.workspace_mib);
    let Resources {
        memory,
        memory_swap,
        pids_limit,
        nano_cpus,
    } = resources(ask.launch, ask.host.runtime.kind);
    HostSpec {
        readonly_rootfs: true,
        auto_remove: false,
        cap_drop: vec!["ALL".to_owned()],
        cap_add: Vec::new(),
        security_opt: security_opt(ask.host.apparmor),
        network_mode: "none".to_owned(),
        ipc_mode: "private".to_owned(),
        cgroupns_mode: "private".to_owned(),
        log_driver: "none".to_owned(),
        restart_policy: "no".to_owned(),
        memory,
        memory_swap,
        pids_limit,
        nano_cpus,
        ulimits: BTreeMap::from([
            ("core".to_owned(), 0),
            ("fsize".to_owned(), bytes(workspace)),
            ("nofile".to_owned(), NOFILE),
        ]),
        shm_size: bytes(shm),
        tmpfs: folders(workspace, ask.uid, ask.host.runtime.kind),
        oom_score_adj: OOM_SCORE_ADJ,
        runtime: ask.host.runtime.name.clone(),
        // The host's resolv.conf would appear inside, though nothing is reachable.
        dns: vec!["127.0.0.1".to_owned()],
        dns_search: vec![".".to_owned()],
        mounts: vec![VolumeMount {
            volume: ask.guest_volume.to_owned(),
            target: GUEST_DIR.to_owned(),
            access: Access::ReadOnly,
            seeding: Seeding::Never,
        }],
    }
}

/// What a launch's limits come to for the daemon: the part of them that can be raised later.
pub(super) fn resources(launch: &Launch, runtime: RuntimeKind) -> Resources {
    let Launch {
        limits,
        shm_mib,
        warm_up,
        ..
    } = launch;
    let files = u64::from(limits.workspace_mib) + TMP_MIB + u64::from(*shm_mib);
    // What an interpreter took before its program came is not the program's.
    let warm = warm_up
        .as_ref()
        .map_or(0, |warm_up| u64::from(warm_up.memory_mib));
    let memory = bytes(u64::from(limits.memory_mib) + files + GUEST_MIB + warm);
    Resources {
        memory,
        memory_swap: memory,
        pids_limit: i64::from(pids_limit(limits, runtime)),
        nano_cpus: i64::from(limits.cpus.millis()) * 1_000_000,
    }
}

/// `no-new-privileges`, our profile, and `AppArmor`'s where there is one.
pub(super) fn security_opt(apparmor: AppArmor) -> Vec<String> {
    let mut options = vec![
        "no-new-privileges".to_owned(),
        format!("seccomp={}", seccomp::PROFILE),
    ];
    match apparmor {
        AppArmor::Present => options.push("apparmor=docker-default".to_owned()),
        AppArmor::Absent => {}
    }
    options
}

/// PID 1's own environment: nothing of the server's, and nothing of the image's, whose variables are
/// taken away by name.
pub(super) fn env(image: &Image) -> Vec<String> {
    let mut env = vec![INIT_PATH.to_owned()];
    for variable in &image.env {
        let name = variable.split('=').next().unwrap_or_default();
        if !name.is_empty() && name != "PATH" && !env.iter().any(|known| known == name) {
            env.push(name.to_owned());
        }
    }
    env
}

/// Processes and threads that the cgroup allows.
fn pids_limit(limits: &Limits, runtime: RuntimeKind) -> u32 {
    match runtime {
        RuntimeKind::HostKernel => limits.pids,
        RuntimeKind::Gvisor => GVISOR_MIN_PIDS.max(limits.pids.saturating_mul(GVISOR_PIDS_EACH)),
    }
}

/// `RLIMIT_NPROC` for programs. Never on the host's kernel, where it would count over all containers of the uid. It
/// counts the guest, as the cgroup does, and the program's stub, which the caller did not ask for.
pub(super) fn nproc(limits: &Limits, runtime: RuntimeKind) -> Option<u64> {
    match runtime {
        RuntimeKind::HostKernel => None,
        RuntimeKind::Gvisor => Some(u64::from(limits.pids) + 1),
    }
}

/// The folders in memory. gVisor's kernel is the sandbox's own, and so are its terminals.
fn folders(workspace_mib: u64, uid: u32, runtime: RuntimeKind) -> BTreeMap<String, String> {
    let mut folders = BTreeMap::from([
        (WORKSPACE.to_owned(), tmpfs(workspace_mib, "exec", uid)),
        ("/tmp".to_owned(), tmpfs(TMP_MIB, "noexec", uid)),
    ]);
    match runtime {
        RuntimeKind::HostKernel => {
            folders.insert(TERMINALS.to_owned(), NO_TERMINALS.to_owned());
        }
        RuntimeKind::Gvisor => {}
    }
    folders
}

fn tmpfs(mib: u64, exec: &str, uid: u32) -> String {
    let size = mib * MIB;
    let inodes = (mib * INODES_PER_MIB).max(MIN_INODES);
    format!("size={size},nr_inodes={inodes},mode=1777,uid={uid},gid={uid},nosuid,nodev,{exec}")
}

/// MiB as bytes, in Docker's type. Limits are 32-bit numbers of MiB, so that nothing is cut in fact.
fn bytes(mib: u64) -> i64 {
    i64::try_from(mib * MIB).unwrap_or(i64::MAX)
}

/// The name of this server's container number `seq`.
pub(super) fn container_name(instance: &InstanceId, seq: u64) -> String {
    format!("belljar-{instance}-{seq}")
}

/// The instance whose container bears this name, if it is a name of ours.
pub(super) fn instance_of(name: &str) -> Option<InstanceId> {
    let (instance, seq) = name.strip_prefix("belljar-")?.split_once('-')?;
    let number = !seq.is_empty() && seq.len() <= 20 && seq.bytes().all(|b| b.is_ascii_digit());
    number.then(|| InstanceId::parse(instance).ok()).flatten()
}

#[cfg(test)]
mod tests;
