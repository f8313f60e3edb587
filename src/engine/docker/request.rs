//! From our specification to the API's.
//!
//! Every field that no sandbox may have open is set closed here, rather than left to the daemon's
//! configuration; `MaskedPaths` and `ReadonlyPaths` alone stay unset, since setting them replaces Docker's own
//! lists.
#![expect(
    clippy::disallowed_types,
    reason = "the engine's own adapter: the one place that speaks to Docker"
)]

use bollard::models::{
    ContainerCreateBody, ContainerUpdateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum,
    HostConfigLogConfig, Mount, MountType, MountVolumeOptions, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum, VolumeCreateRequest,
};

use crate::engine::daemon::{
    Access, ContainerSpec, DaemonError, HostSpec, Resources, Seeding, Stdio, Volume, VolumeMount,
    quoted,
};

/// Bytes of an image's reference.
const MAX_REFERENCE_BYTES: usize = 512;

/// Refuses what is no reference of an image, since it becomes a part of a URL's path.
pub(super) fn reference(text: &str) -> Result<(), DaemonError> {
    let right = !text.is_empty()
        && text.len() <= MAX_REFERENCE_BYTES
        && !text.split('/').any(|part| matches!(part, "" | "." | ".."))
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/:@+".contains(&b));
    if right {
        Ok(())
    } else {
        Err(DaemonError::Failed {
            call: "inspect image",
            why: format!("{:?} is not an image's reference", quoted(text)),
        })
    }
}

pub(super) fn container(spec: &ContainerSpec) -> ContainerCreateBody {
    let open = match spec.stdio {
        Stdio::Once => true,
        Stdio::Closed | Stdio::Other => false,
    };
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        entrypoint: Some(spec.entrypoint.clone()),
        cmd: Some(spec.command.clone()),
        env: Some(spec.env.clone()),
        working_dir: Some(spec.working_dir.clone()),
        user: Some(spec.user.clone()),
        hostname: Some(spec.hostname.clone()),
        domainname: Some(spec.domainname.clone()),
        labels: Some(spec.labels.clone().into_iter().collect()),
        stop_signal: Some(spec.stop_signal.clone()),
        healthcheck: Some(HealthConfig {
            test: Some(spec.healthcheck.clone()),
            ..HealthConfig::default()
        }),
        attach_stdin: Some(open),
        attach_stdout: Some(open),
        attach_stderr: Some(open),
        open_stdin: Some(open),
        stdin_once: Some(open),
        tty: Some(false),
        host_config: Some(host(&spec.host)),
        ..ContainerCreateBody::default()
    }
}

/// Nothing but these four: what an update leaves out stays as it is.
pub(super) fn resources(resources: &Resources) -> ContainerUpdateBody {
    ContainerUpdateBody {
        memory: Some(resources.memory),
        memory_swap: Some(resources.memory_swap),
        pids_limit: Some(resources.pids_limit),
        nano_cpus: Some(resources.nano_cpus),
        ..ContainerUpdateBody::default()
    }
}

fn host(host: &HostSpec) -> HostConfig {
    HostConfig {
        readonly_rootfs: Some(host.readonly_rootfs),
        auto_remove: Some(host.auto_remove),
        cap_drop: Some(host.cap_drop.clone()),
        cap_add: Some(host.cap_add.clone()),
        security_opt: Some(host.security_opt.clone()),
        network_mode: Some(host.network_mode.clone()),
        ipc_mode: Some(host.ipc_mode.clone()),
        cgroupns_mode: Some(cgroupns(&host.cgroupns_mode)),
        log_config: Some(HostConfigLogConfig {
            typ: Some(host.log_driver.clone()),
            config: None,
        }),
        restart_policy: Some(RestartPolicy {
            name: Some(restart(&host.restart_policy)),
            maximum_retry_count: None,
        }),
        memory: Some(host.memory),
        memory_swap: Some(host.memory_swap),
        pids_limit: Some(host.pids_limit),
        nano_cpus: Some(host.nano_cpus),
        ulimits: Some(
            host.ulimits
                .iter()
                .map(|(name, value)| ResourcesUlimits {
                    name: Some(name.clone()),
                    soft: Some(*value),
                    hard: Some(*value),
                })
                .collect(),
        ),
        shm_size: Some(host.shm_size),
        tmpfs: Some(host.tmpfs.clone().into_iter().collect()),
        oom_score_adj: Some(host.oom_score_adj),
        runtime: Some(host.runtime.clone()),
        dns: Some(host.dns.clone()),
        dns_search: Some(host.dns_search.clone()),
        mounts: Some(host.mounts.iter().map(mount).collect()),
        // Closed, whatever the daemon's defaults are.
        privileged: Some(false),
        publish_all_ports: Some(false),
        init: Some(false),
        binds: Some(Vec::new()),
        devices: Some(Vec::new()),
        device_requests: Some(Vec::new()),
        device_cgroup_rules: Some(Vec::new()),
        group_add: Some(Vec::new()),
        extra_hosts: Some(Vec::new()),
        volumes_from: Some(Vec::new()),
        cgroup_parent: Some(String::new()),
        pid_mode: Some(String::new()),
        uts_mode: Some(String::new()),
        userns_mode: Some(String::new()),
        ..HostConfig::default()
    }
}

fn mount(mount: &VolumeMount) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(mount.volume.clone()),
        target: Some(mount.target.clone()),
        read_only: Some(mount.access == Access::ReadOnly),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(mount.seeding == Seeding::Never),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

/// Anything but the two words is left to fail the comparison after the create.
fn cgroupns(mode: &str) -> HostConfigCgroupnsModeEnum {
    match mode {
        "private" => HostConfigCgroupnsModeEnum::PRIVATE,
        "host" => HostConfigCgroupnsModeEnum::HOST,
        _ => HostConfigCgroupnsModeEnum::EMPTY,
    }
}

fn restart(policy: &str) -> RestartPolicyNameEnum {
    match policy {
        "no" => RestartPolicyNameEnum::NO,
        _ => RestartPolicyNameEnum::EMPTY,
    }
}

pub(super) fn volume(volume: &Volume) -> VolumeCreateRequest {
    VolumeCreateRequest {
        name: Some(volume.name.clone()),
        driver: Some("local".to_owned()),
        labels: Some(volume.labels.clone().into_iter().collect()),
        ..VolumeCreateRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_only_what_can_stand_in_a_path() {
        for good in [
            "belljar/python:latest",
            "python:3.13-alpine",
            "localhost:5000/a/b@sha256:0123",
            "sha256:0123abc",
        ] {
            assert!(reference(good).is_ok(), "{good}");
        }
        for bad in [
            "", "a/../b", "../x", "a?b", "a b", "a#b", "a//b", "/a", "a%2fb", "é",
        ] {
            assert!(reference(bad).is_err(), "{bad}");
        }
        assert!(reference(&"a".repeat(MAX_REFERENCE_BYTES + 1)).is_err());
    }
}
