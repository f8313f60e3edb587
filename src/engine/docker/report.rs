//! From the API's reports to our own types.
//!
//! What is absent becomes the value that cannot be mistaken for a closed one: the comparison after a create must
//! fail on it.
#![expect(
    clippy::disallowed_types,
    reason = "the engine's own adapter: the one place that speaks to Docker"
)]

use std::collections::{BTreeMap, HashMap};

use bollard::models::{
    ContainerConfig, ContainerInspectResponse, ContainerState, ContainerStateStatusEnum,
    ContainerSummary, HostConfig, ImageInspect, Mount, MountPoint, MountType, SystemInfo,
    SystemVersion, Volume as ApiVolume,
};

use crate::engine::daemon::{
    Access, ContainerSpec, HostSpec, Image, Info, Inspected, Listed, Mounted, OomFlag, Phase,
    Seeding, State, Stdio, Version, Volume, VolumeMount,
};

pub(super) fn version(version: SystemVersion) -> Version {
    Version {
        engine: version.version.unwrap_or_default(),
        api: version.api_version.unwrap_or_default(),
        components: version
            .components
            .unwrap_or_default()
            .into_iter()
            .map(|component| (component.name, component.version))
            .collect(),
    }
}

pub(super) fn info(info: SystemInfo) -> Info {
    let number = |value: Option<i64>| u64::try_from(value.unwrap_or_default()).unwrap_or_default();
    Info {
        daemon_id: info.id.unwrap_or_default(),
        os_type: info.os_type.unwrap_or_default(),
        architecture: info.architecture.unwrap_or_default(),
        operating_system: info.operating_system.unwrap_or_default(),
        kernel: info.kernel_version.unwrap_or_default(),
        cgroup_version: text(info.cgroup_version),
        cgroup_driver: text(info.cgroup_driver),
        security_options: info.security_options.unwrap_or_default(),
        runtimes: info
            .runtimes
            .unwrap_or_default()
            .into_iter()
            .map(|(name, runtime)| (name, runtime.path.unwrap_or_default()))
            .collect(),
        default_runtime: info.default_runtime.unwrap_or_default(),
        cpus: number(info.ncpu),
        memory_bytes: number(info.mem_total),
        root_dir: info.docker_root_dir.unwrap_or_default(),
        warnings: info.warnings.unwrap_or_default(),
    }
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

pub(super) fn image(image: ImageInspect) -> Image {
    let config = image.config.unwrap_or_default();
    Image {
        id: image.id.unwrap_or_default(),
        volumes: config.volumes.unwrap_or_default(),
        label_names: config.labels.unwrap_or_default().into_keys().collect(),
        env: config.env.unwrap_or_default(),
        architecture: image.architecture.unwrap_or_default(),
        bytes: u64::try_from(image.size.unwrap_or_default()).unwrap_or_default(),
    }
}

pub(super) fn listed(summary: ContainerSummary) -> Listed {
    Listed {
        id: summary.id.unwrap_or_default(),
        name: summary
            .names
            .unwrap_or_default()
            .first()
            .map(|name| plain_name(name))
            .unwrap_or_default(),
        labels: sorted(summary.labels),
    }
}

pub(super) fn volume(volume: ApiVolume) -> Volume {
    Volume {
        name: volume.name,
        labels: volume.labels.into_iter().collect(),
    }
}

pub(super) fn container(container: ContainerInspectResponse) -> Inspected {
    let config = container.config.unwrap_or_default();
    let mut host = container.host_config.unwrap_or_default();
    let mut unasked = unasked(&config, &host);
    let mounts = host
        .mounts
        .take()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|mount| {
            let volume = volume_mount(mount);
            if volume.is_none() {
                unasked.push("Mounts".to_owned());
            }
            volume
        })
        .collect();
    Inspected {
        id: container.id.unwrap_or_default(),
        name: container
            .name
            .as_deref()
            .map(plain_name)
            .unwrap_or_default(),
        spec: ContainerSpec {
            image: container.image.unwrap_or_default(),
            stdio: stdio(&config),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            env: config.env.unwrap_or_default(),
            working_dir: config.working_dir.unwrap_or_default(),
            user: config.user.unwrap_or_default(),
            hostname: config.hostname.unwrap_or_default(),
            domainname: config.domainname.unwrap_or_default(),
            labels: sorted(config.labels),
            stop_signal: config.stop_signal.unwrap_or_default(),
            healthcheck: config
                .healthcheck
                .and_then(|check| check.test)
                .unwrap_or_default(),
            host: host_spec(host, mounts),
        },
        unasked,
        mounted: container
            .mounts
            .unwrap_or_default()
            .into_iter()
            .map(mounted)
            .collect(),
        state: state(container.state.unwrap_or_default()),
    }
}

fn plain_name(name: &str) -> String {
    name.trim_start_matches('/').to_owned()
}

fn sorted(map: Option<HashMap<String, String>>) -> BTreeMap<String, String> {
    map.unwrap_or_default().into_iter().collect()
}

fn stdio(config: &ContainerConfig) -> Stdio {
    let on = |flag: Option<bool>| flag.unwrap_or_default();
    match (on(config.open_stdin), on(config.stdin_once), on(config.tty)) {
        (true, true, false) => Stdio::Once,
        (false, false, false) => Stdio::Closed,
        _ => Stdio::Other,
    }
}

fn host_spec(host: HostConfig, mounts: Vec<VolumeMount>) -> HostSpec {
    HostSpec {
        readonly_rootfs: host.readonly_rootfs.unwrap_or_default(),
        auto_remove: host.auto_remove.unwrap_or_default(),
        cap_drop: host.cap_drop.unwrap_or_default(),
        cap_add: host.cap_add.unwrap_or_default(),
        security_opt: host.security_opt.unwrap_or_default(),
        network_mode: host.network_mode.unwrap_or_default(),
        ipc_mode: host.ipc_mode.unwrap_or_default(),
        cgroupns_mode: text(host.cgroupns_mode),
        log_driver: host
            .log_config
            .and_then(|config| config.typ)
            .unwrap_or_default(),
        restart_policy: host
            .restart_policy
            .map(|policy| text(policy.name))
            .unwrap_or_default(),
        memory: host.memory.unwrap_or_default(),
        memory_swap: host.memory_swap.unwrap_or_default(),
        pids_limit: host.pids_limit.unwrap_or_default(),
        nano_cpus: host.nano_cpus.unwrap_or_default(),
        ulimits: host
            .ulimits
            .unwrap_or_default()
            .into_iter()
            .map(|limit| {
                // The hard limit is the one that counts; a soft one that differs shows as another name.
                let name = limit.name.unwrap_or_default();
                let same = limit.soft == limit.hard;
                let name = if same {
                    name
                } else {
                    format!("{name} (soft differs)")
                };
                (name, limit.hard.unwrap_or(-1))
            })
            .collect(),
        shm_size: host.shm_size.unwrap_or_default(),
        tmpfs: sorted(host.tmpfs),
        oom_score_adj: host.oom_score_adj.unwrap_or_default(),
        runtime: host.runtime.unwrap_or_default(),
        dns: host.dns.unwrap_or_default(),
        dns_search: host.dns_search.unwrap_or_default(),
        mounts,
    }
}

/// `None` for anything but a volume.
fn volume_mount(mount: Mount) -> Option<VolumeMount> {
    if mount.typ != Some(MountType::VOLUME) {
        return None;
    }
    let no_copy = mount.volume_options.and_then(|options| options.no_copy);
    Some(VolumeMount {
        volume: mount.source.unwrap_or_default(),
        target: mount.target.unwrap_or_default(),
        access: access(!mount.read_only.unwrap_or_default()),
        seeding: if no_copy == Some(true) {
            Seeding::Never
        } else {
            Seeding::FromImage
        },
    })
}

fn mounted(mount: MountPoint) -> Mounted {
    Mounted {
        kind: mount.typ.unwrap_or_default(),
        name: mount.name.unwrap_or_default(),
        target: mount.destination.unwrap_or_default(),
        access: access(mount.rw.unwrap_or(true)),
    }
}

fn access(writable: bool) -> Access {
    if writable {
        Access::ReadWrite
    } else {
        Access::ReadOnly
    }
}

fn state(state: ContainerState) -> State {
    let running = state.running == Some(true);
    State {
        phase: match state.status {
            Some(ContainerStateStatusEnum::CREATED) => Phase::Created,
            _ if running => Phase::Running,
            Some(ContainerStateStatusEnum::EXITED | ContainerStateStatusEnum::DEAD) => Phase::Ended,
            // Being removed, restarting, stopping, or a word that is newer than this: not ended yet.
            _ => Phase::Running,
        },
        oom: if state.oom_killed == Some(true) {
            OomFlag::Set
        } else {
            OomFlag::Clear
        },
        exit_code: state.exit_code.unwrap_or_default(),
        error: state.error.unwrap_or_default(),
    }
}

/// Names of settings that no sandbox may have and that are not closed.
fn unasked(config: &ContainerConfig, host: &HostConfig) -> Vec<String> {
    fn some<T>(list: Option<&Vec<T>>) -> bool {
        list.is_some_and(|list| !list.is_empty())
    }
    fn set(text: Option<&String>) -> bool {
        text.is_some_and(|text| !text.is_empty())
    }
    fn any<K, V>(map: Option<&HashMap<K, V>>) -> bool {
        map.is_some_and(|map| !map.is_empty())
    }
    // Docker's own lists of what is hidden below /proc and /sys; an empty one hides nothing.
    fn emptied(list: Option<&Vec<String>>) -> bool {
        list.is_some_and(Vec::is_empty)
    }
    let open = [
        ("Privileged", host.privileged == Some(true)),
        ("PublishAllPorts", host.publish_all_ports == Some(true)),
        ("OomKillDisable", host.oom_kill_disable == Some(true)),
        ("Init", host.init == Some(true)),
        ("Binds", some(host.binds.as_ref())),
        ("Devices", some(host.devices.as_ref())),
        ("DeviceRequests", some(host.device_requests.as_ref())),
        ("DeviceCgroupRules", some(host.device_cgroup_rules.as_ref())),
        ("GroupAdd", some(host.group_add.as_ref())),
        ("ExtraHosts", some(host.extra_hosts.as_ref())),
        ("Links", some(host.links.as_ref())),
        ("VolumesFrom", some(host.volumes_from.as_ref())),
        ("PortBindings", any(host.port_bindings.as_ref())),
        ("Sysctls", any(host.sysctls.as_ref())),
        ("Annotations", any(host.annotations.as_ref())),
        ("CgroupParent", set(host.cgroup_parent.as_ref())),
        ("Cgroup", set(host.cgroup.as_ref())),
        ("PidMode", set(host.pid_mode.as_ref())),
        ("UTSMode", set(host.uts_mode.as_ref())),
        ("UsernsMode", set(host.userns_mode.as_ref())),
        ("MaskedPaths", emptied(host.masked_paths.as_ref())),
        ("ReadonlyPaths", emptied(host.readonly_paths.as_ref())),
        ("Volumes", some(config.volumes.as_ref())),
    ];
    open.into_iter()
        .filter(|(_, open)| *open)
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use bollard::models::{DeviceMapping, DeviceRequest, ResourcesUlimits};

    use super::*;

    #[test]
    fn hardening_what_no_caller_may_set_is_found() {
        fn list() -> Vec<String> {
            vec!["x".to_owned()]
        }
        fn map() -> HashMap<String, String> {
            HashMap::from([("a".to_owned(), "b".to_owned())])
        }
        type Open = (&'static str, fn(&mut HostConfig));
        let open: &[Open] = &[
            ("Privileged", |h| h.privileged = Some(true)),
            ("PublishAllPorts", |h| h.publish_all_ports = Some(true)),
            ("OomKillDisable", |h| h.oom_kill_disable = Some(true)),
            ("Init", |h| h.init = Some(true)),
            ("Binds", |h| h.binds = Some(list())),
            ("Devices", |h| {
                h.devices = Some(vec![DeviceMapping::default()]);
            }),
            ("DeviceRequests", |h| {
                h.device_requests = Some(vec![DeviceRequest::default()]);
            }),
            ("DeviceCgroupRules", |h| {
                h.device_cgroup_rules = Some(list());
            }),
            ("GroupAdd", |h| h.group_add = Some(list())),
            ("ExtraHosts", |h| h.extra_hosts = Some(list())),
            ("Links", |h| h.links = Some(list())),
            ("VolumesFrom", |h| h.volumes_from = Some(list())),
            ("PortBindings", |h| {
                h.port_bindings = Some([("1/tcp".to_owned(), None)].into());
            }),
            ("Sysctls", |h| h.sysctls = Some(map())),
            ("Annotations", |h| h.annotations = Some(map())),
            ("CgroupParent", |h| h.cgroup_parent = Some("host".into())),
            ("Cgroup", |h| h.cgroup = Some("host".into())),
            ("PidMode", |h| h.pid_mode = Some("host".into())),
            ("UTSMode", |h| h.uts_mode = Some("host".into())),
            ("UsernsMode", |h| h.userns_mode = Some("host".into())),
            ("MaskedPaths", |h| h.masked_paths = Some(vec![])),
            ("ReadonlyPaths", |h| h.readonly_paths = Some(vec![])),
        ];
        for (name, change) in open {
            let mut host = HostConfig::default();
            assert!(unasked(&ContainerConfig::default(), &host).is_empty());
            change(&mut host);
            assert_eq!(unasked(&ContainerConfig::default(), &host), [*name]);
        }
    }

    #[test]
    fn hardening_mounts_anything_but_a_volume_is_found() {
        let found = container(ContainerInspectResponse {
            host_config: Some(HostConfig {
                mounts: Some(vec![Mount {
                    typ: Some(MountType::BIND),
                    ..Mount::default()
                }]),
                ..HostConfig::default()
            }),
            ..ContainerInspectResponse::default()
        });
        assert_eq!(found.unasked, ["Mounts"]);
    }

    #[test]
    fn hardening_ulimits_a_soft_limit_that_differs_is_found() {
        let host = HostConfig {
            ulimits: Some(vec![ResourcesUlimits {
                name: Some("core".into()),
                soft: Some(1),
                hard: Some(0),
            }]),
            ..HostConfig::default()
        };
        let spec = host_spec(host, Vec::new());
        assert_eq!(spec.ulimits.keys().next().unwrap(), "core (soft differs)");
    }

    #[test]
    fn what_the_daemon_leaves_out_is_never_taken_for_closed() {
        let found = container(ContainerInspectResponse::default());
        assert!(!found.spec.host.readonly_rootfs);
        assert!(found.spec.host.cap_drop.is_empty());
        assert_eq!(found.spec.stdio, Stdio::Closed);
        assert_eq!(mounted(MountPoint::default()).access, Access::ReadWrite);
    }
}
