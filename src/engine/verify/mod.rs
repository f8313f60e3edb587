//! Reads a container back and compares every field with what was asked.
//!
//! Docker drops limits that it cannot apply, fills gaps from the image and from its own configuration, and says little
//! about either. A container that differs in anything is not started.

use super::{
    daemon::{Access, ContainerSpec, Created, HostSpec, Inspected, Mounted, Phase, quoted},
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
    let check = Check;
    check.equal("Name", &name, &found.name.as_str())?;
    check.equal("State", &Phase::Created, &found.state.phase)?;
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
    check.equal("Image", image, &spec.image)?;
    check.equal("Entrypoint", entrypoint, &spec.entrypoint)?;
    check.equal("Cmd", command, &spec.command)?;
    check.same_set("Env", env, &spec.env)?;
    check.equal("WorkingDir", working_dir, &spec.working_dir)?;
    check.equal("User", user, &spec.user)?;
    check.equal("Hostname", hostname, &spec.hostname)?;
    check.equal("Domainname", domainname, &spec.domainname)?;
    // An image's labels come along and mean nothing; those that begin like ours were refused with the image.
    for (label, value) in labels {
        check.equal("Labels", &Some(value), &spec.labels.get(label))?;
    }
    check.equal("StopSignal", stop_signal, &spec.stop_signal)?;
    check.equal("Healthcheck", healthcheck, &spec.healthcheck)?;
    check.equal("OpenStdin, StdinOnce, Tty", stdio, &spec.stdio)?;
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
    let check = Check;
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
    check.equal("ReadonlyRootfs", readonly_rootfs, &found.readonly_rootfs)?;
    check.equal("AutoRemove", auto_remove, &found.auto_remove)?;
    check.equal("CapDrop", cap_drop, &found.cap_drop)?;
    check.equal("CapAdd", cap_add, &found.cap_add)?;
    check.same_set("SecurityOpt", security_opt, &found.security_opt)?;
    check.equal("NetworkMode", network_mode, &found.network_mode)?;
    check.equal("IpcMode", ipc_mode, &found.ipc_mode)?;
    check.equal("CgroupnsMode", cgroupns_mode, &found.cgroupns_mode)?;
    check.equal("LogConfig", log_driver, &found.log_driver)?;
    check.equal("RestartPolicy", restart_policy, &found.restart_policy)?;
    check.equal("Memory", memory, &found.memory)?;
    // The other half of the one excepted warning.
    if !(swap == Swap::None && found.memory_swap == SWAP_UNLIMITED) {
        check.equal("MemorySwap", memory_swap, &found.memory_swap)?;
    }
    check.equal("PidsLimit", pids_limit, &found.pids_limit)?;
    check.equal("NanoCpus", nano_cpus, &found.nano_cpus)?;
    check.equal("Ulimits", ulimits, &found.ulimits)?;
    check.equal("ShmSize", shm_size, &found.shm_size)?;
    check.equal("Tmpfs", tmpfs, &found.tmpfs)?;
    check.equal("OomScoreAdj", oom_score_adj, &found.oom_score_adj)?;
    check.equal("Runtime", runtime, &found.runtime)?;
    check.equal("Dns", dns, &found.dns)?;
    check.equal("DnsSearch", dns_search, &found.dns_search)?;
    check.equal("HostConfig.Mounts", mounts, &found.mounts)
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
    debug_assert!(wanted.iter().all(|mount| mount.access == Access::ReadOnly));
    Check.equal("Mounts", &wanted.as_slice(), &found)
}

/// Comparisons that name the field.
struct Check;

impl Check {
    #[expect(clippy::unused_self, reason = "reads as a sentence at the use sites")]
    fn equal<T: PartialEq + std::fmt::Debug>(
        &self,
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

    fn same_set(
        &self,
        field: &'static str,
        asked: &[String],
        found: &[String],
    ) -> Result<(), EngineError> {
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort();
            list
        };
        self.equal(field, &sorted(asked), &sorted(found))
    }
}

#[cfg(test)]
mod tests;
