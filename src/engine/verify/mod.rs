//! Reads a container back and compares every field with what was asked.
//!
//! Docker drops limits that it cannot apply, fills gaps from the image and from its own configuration, and says little
//! about either. A container that differs in anything is not started.

use super::{
    daemon::{ContainerSpec, Created, HostSpec, Inspected, Mounted, Phase, Resources, quoted},
    error::EngineError,
    swap::Swap,
};

/// What Docker says of a swap limit that it cannot apply, in its several wordings.
const SWAP_WARNING: &str = "swap limit";
/// What it then sets.
const SWAP_UNLIMITED: i64 = -1;

/// Fails on any warning at create but one: that swap cannot be limited, on a host that has none.
pub(super) fn warnings(created: &Created, swap: Swap) -> Result<(), EngineError> {
    match created
        .warnings
        .iter()
        .find(|warning| !(swap == Swap::None && warning.contains(SWAP_WARNING)))
    {
        None => Ok(()),
        Some(warning) => Err(EngineError::Warning {
            warning: quoted(warning),
        }),
    }
}

/// Compares what was made with what was asked; names the first field that differs.
pub(super) fn container(
    name: &str,
    asked: &ContainerSpec,
    found: &Inspected,
    swap: Swap,
) -> Result<(), EngineError> {
    equal("Name", &name, &found.name.as_str())?;
    equal("State", &Phase::Created, &found.state.phase)?;
    let ContainerSpec {
        image,
        entrypoint,
        command,
        env,
        working_dir,
        user,
        hostname,
        domainname,
        labels,
        stop_signal,
        healthcheck,
        stdio,
        host,
    } = asked;
    let spec = &found.spec;
    equal("Image", image, &spec.image)?;
    equal("Entrypoint", entrypoint, &spec.entrypoint)?;
    equal("Cmd", command, &spec.command)?;
    same_set("Env", env, &spec.env)?;
    equal("WorkingDir", working_dir, &spec.working_dir)?;
    equal("User", user, &spec.user)?;
    equal("Hostname", hostname, &spec.hostname)?;
    equal("Domainname", domainname, &spec.domainname)?;
    // An image's labels come along and mean nothing; those that begin like ours were refused with the image.
    for (label, value) in labels {
        equal("Labels", &Some(value), &spec.labels.get(label))?;
    }
    equal("StopSignal", stop_signal, &spec.stop_signal)?;
    equal("Healthcheck", healthcheck, &spec.healthcheck)?;
    equal("OpenStdin, StdinOnce, Tty", stdio, &spec.stdio)?;
    host_config(host, &spec.host, swap)?;
    mounts(&host.mounts, &found.mounted)?;
    match found.unasked.first() {
        None => Ok(()),
        Some(setting) => Err(EngineError::Mismatch {
            field: "HostConfig",
            asked: "nothing besides".to_owned(),
            found: quoted(setting),
        }),
    }
}

fn host_config(asked: &HostSpec, found: &HostSpec, swap: Swap) -> Result<(), EngineError> {
    let HostSpec {
        readonly_rootfs,
        auto_remove,
        cap_drop,
        cap_add,
        security_opt,
        network_mode,
        ipc_mode,
        cgroupns_mode,
        log_driver,
        restart_policy,
        memory,
        memory_swap,
        pids_limit,
        nano_cpus,
        ulimits,
        shm_size,
        tmpfs,
        oom_score_adj,
        runtime,
        dns,
        dns_search,
        mounts,
    } = asked;
    equal("ReadonlyRootfs", readonly_rootfs, &found.readonly_rootfs)?;
    equal("AutoRemove", auto_remove, &found.auto_remove)?;
    equal("CapDrop", cap_drop, &found.cap_drop)?;
    equal("CapAdd", cap_add, &found.cap_add)?;
    same_set("SecurityOpt", security_opt, &found.security_opt)?;
    equal("NetworkMode", network_mode, &found.network_mode)?;
    equal("IpcMode", ipc_mode, &found.ipc_mode)?;
    equal("CgroupnsMode", cgroupns_mode, &found.cgroupns_mode)?;
    equal("LogConfig", log_driver, &found.log_driver)?;
    equal("RestartPolicy", restart_policy, &found.restart_policy)?;
    let limits = Resources {
        memory: *memory,
        memory_swap: *memory_swap,
        pids_limit: *pids_limit,
        nano_cpus: *nano_cpus,
    };
    resources(&limits, found, swap)?;
    equal("Ulimits", ulimits, &found.ulimits)?;
    equal("ShmSize", shm_size, &found.shm_size)?;
    equal("Tmpfs", tmpfs, &found.tmpfs)?;
    equal("OomScoreAdj", oom_score_adj, &found.oom_score_adj)?;
    equal("Runtime", runtime, &found.runtime)?;
    equal("Dns", dns, &found.dns)?;
    equal("DnsSearch", dns_search, &found.dns_search)?;
    equal("HostConfig.Mounts", mounts, &found.mounts)
}

/// Compares what can be changed while a container runs.
pub(super) fn resources(
    asked: &Resources,
    found: &HostSpec,
    swap: Swap,
) -> Result<(), EngineError> {
    equal("Memory", &asked.memory, &found.memory)?;
    // The other half of the one excepted warning.
    if !(swap == Swap::None && found.memory_swap == SWAP_UNLIMITED) {
        equal("MemorySwap", &asked.memory_swap, &found.memory_swap)?;
    }
    equal("PidsLimit", &asked.pids_limit, &found.pids_limit)?;
    equal("NanoCpus", &asked.nano_cpus, &found.nano_cpus)
}

/// What is mounted in fact is what was asked for and nothing else: an image's VOLUME would show here.
fn mounts(asked: &[super::daemon::VolumeMount], found: &[Mounted]) -> Result<(), EngineError> {
    let wanted: Vec<Mounted> = asked
        .iter()
        .map(|mount| Mounted {
            kind: "volume".to_owned(),
            name: mount.volume.clone(),
            target: mount.target.clone(),
            access: mount.access,
        })
        .collect();
    equal("Mounts", &wanted.as_slice(), &found)
}

/// Fails with the field's name where the two differ.
fn equal<T: PartialEq + std::fmt::Debug>(
    field: &'static str,
    asked: &T,
    found: &T,
) -> Result<(), EngineError> {
    if asked == found {
        return Ok(());
    }
    Err(EngineError::Mismatch {
        field,
        asked: quoted(&format!("{asked:?}")),
        found: quoted(&format!("{found:?}")),
    })
}

/// The same for lists whose order means nothing.
fn same_set(field: &'static str, asked: &[String], found: &[String]) -> Result<(), EngineError> {
    let sorted = |list: &[String]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    equal(field, &sorted(asked), &sorted(found))
}

#[cfg(test)]
mod tests;
