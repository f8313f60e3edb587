use std::collections::BTreeMap;

use super::*;
use crate::engine::daemon::{Access, Seeding, State, Stdio, VolumeMount};

const NAME: &str = "belljar-x-1";

fn asked() -> ContainerSpec {
    let text = |text: &str| text.to_owned();
    ContainerSpec {
        image: text("sha256:abc"),
        entrypoint: vec![text("/.belljar/init")],
        command: vec![],
        env: vec![text("PATH=/bin"), text("LD_PRELOAD")],
        working_dir: text("/workspace"),
        user: text("52000:52000"),
        hostname: text("sandbox"),
        domainname: String::new(),
        labels: BTreeMap::from([(text("belljar.role"), text("sandbox"))]),
        stop_signal: text("SIGKILL"),
        healthcheck: vec![text("NONE")],
        stdio: Stdio::Once,
        host: HostSpec {
            readonly_rootfs: true,
            auto_remove: false,
            cap_drop: vec![text("ALL")],
            cap_add: vec![],
            security_opt: vec![text("no-new-privileges"), text("seccomp={}")],
            network_mode: text("none"),
            ipc_mode: text("private"),
            cgroupns_mode: text("private"),
            log_driver: text("none"),
            restart_policy: text("no"),
            memory: 1,
            memory_swap: 1,
            pids_limit: 128,
            nano_cpus: 1,
            ulimits: BTreeMap::from([(text("core"), 0)]),
            shm_size: 1,
            tmpfs: BTreeMap::from([(text("/tmp"), text("size=1"))]),
            oom_score_adj: 500,
            runtime: text("runc"),
            dns: vec![text("127.0.0.1")],
            dns_search: vec![text(".")],
            mounts: vec![VolumeMount {
                volume: text("guest"),
                target: text("/.belljar"),
                access: Access::ReadOnly,
                seeding: Seeding::Never,
            }],
        },
    }
}

fn found() -> Inspected {
    Inspected {
        id: "1".into(),
        name: NAME.into(),
        spec: asked(),
        unasked: vec![],
        mounted: vec![Mounted {
            kind: "volume".into(),
            name: "guest".into(),
            target: "/.belljar".into(),
            access: Access::ReadOnly,
        }],
        state: State::default(),
    }
}

fn field_of(found: &Inspected, swap: Swap) -> Option<&'static str> {
    match container(NAME, &asked(), found, swap) {
        Ok(()) => None,
        Err(EngineError::Mismatch { field, .. }) => Some(field),
        Err(other) => panic!("{other}"),
    }
}

type Change = (&'static str, fn(&mut Inspected));

#[test]
fn every_field_that_differs_is_found_and_named() {
    assert_eq!(field_of(&found(), Swap::Unknown), None);
    let changes: &[Change] = &[
        ("Name", |f| f.name = "other".into()),
        ("State", |f| f.state.phase = Phase::Running),
        ("Image", |f| f.spec.image = "sha256:def".into()),
        ("Entrypoint", |f| f.spec.entrypoint = vec!["/bin/sh".into()]),
        ("Cmd", |f| f.spec.command = vec!["x".into()]),
        ("Env", |f| f.spec.env.push("SECRET=1".into())),
        ("Env", |f| f.spec.env[1] = "LD_PRELOAD=/evil.so".into()),
        ("WorkingDir", |f| {
            f.spec.working_dir = "/proc/self/fd/8".into();
        }),
        ("User", |f| f.spec.user = "0:0".into()),
        ("Hostname", |f| f.spec.hostname = "x".into()),
        ("Domainname", |f| f.spec.domainname = "x".into()),
        ("Labels", |f| f.spec.labels.clear()),
        ("StopSignal", |f| f.spec.stop_signal = "SIGTERM".into()),
        ("Healthcheck", |f| f.spec.healthcheck = vec!["CMD".into()]),
        ("OpenStdin, StdinOnce, Tty", |f| f.spec.stdio = Stdio::Other),
        ("ReadonlyRootfs", |f| f.spec.host.readonly_rootfs = false),
        ("AutoRemove", |f| f.spec.host.auto_remove = true),
        ("CapDrop", |f| f.spec.host.cap_drop.clear()),
        ("CapAdd", |f| f.spec.host.cap_add.push("SYS_ADMIN".into())),
        ("SecurityOpt", |f| {
            f.spec.host.security_opt[1] = "seccomp=unconfined".into();
        }),
        ("SecurityOpt", |f| drop(f.spec.host.security_opt.remove(0))),
        ("NetworkMode", |f| {
            f.spec.host.network_mode = "bridge".into();
        }),
        ("IpcMode", |f| f.spec.host.ipc_mode = "host".into()),
        ("CgroupnsMode", |f| {
            f.spec.host.cgroupns_mode = "host".into();
        }),
        ("LogConfig", |f| f.spec.host.log_driver = "json-file".into()),
        ("RestartPolicy", |f| {
            f.spec.host.restart_policy = "always".into();
        }),
        ("Memory", |f| f.spec.host.memory = 0),
        ("MemorySwap", |f| f.spec.host.memory_swap = -1),
        ("PidsLimit", |f| f.spec.host.pids_limit = 0),
        ("NanoCpus", |f| f.spec.host.nano_cpus = 0),
        ("Ulimits", |f| f.spec.host.ulimits.clear()),
        ("ShmSize", |f| f.spec.host.shm_size = 64 << 20),
        ("Tmpfs", |f| f.spec.host.tmpfs.clear()),
        ("OomScoreAdj", |f| f.spec.host.oom_score_adj = 0),
        ("Runtime", |f| f.spec.host.runtime = "runc".repeat(2)),
        ("Dns", |f| f.spec.host.dns.clear()),
        ("DnsSearch", |f| f.spec.host.dns_search.clear()),
        ("HostConfig.Mounts", |f| {
            f.spec.host.mounts[0].seeding = Seeding::FromImage;
        }),
        ("Mounts", |f| f.mounted[0].access = Access::ReadWrite),
        ("Mounts", |f| f.mounted.push(f.mounted[0].clone())),
        ("HostConfig", |f| f.unasked.push("Privileged".into())),
    ];
    for (field, change) in changes {
        let mut found = found();
        change(&mut found);
        assert_eq!(field_of(&found, Swap::Unknown), Some(*field));
    }
}

#[test]
fn an_image_s_own_labels_and_the_order_of_options_mean_nothing() {
    let mut found = found();
    found.spec.labels.insert("org.example".into(), "x".into());
    found.spec.env.reverse();
    found.spec.host.security_opt.reverse();
    assert_eq!(field_of(&found, Swap::Unknown), None);
}

#[test]
fn what_the_daemon_made_of_it_is_quoted_in_bounds() {
    let mut found = found();
    found.spec.user = "\u{1b}[2J".repeat(10_000);
    let text = container(NAME, &asked(), &found, Swap::Unknown)
        .unwrap_err()
        .to_string();
    assert!(text.len() < 4096 && !text.contains('\u{1b}'), "{text}");
}

const SWAP: &str = "Your kernel does not support swap limit capabilities or the cgroup is not mounted. Memory limited without swap.";

fn created(warning: &str) -> Created {
    Created {
        id: "1".into(),
        warnings: vec![warning.to_owned()],
    }
}

#[test]
fn hardening_any_warning_fails_the_create() {
    for warning in [
        "Your kernel does not support pids limit capabilities",
        SWAP,
        "",
    ] {
        for swap in [Swap::Some, Swap::Unknown] {
            assert!(matches!(
                warnings(&created(warning), swap),
                Err(EngineError::Warning { .. })
            ));
        }
    }
    assert!(warnings(&Created::default(), Swap::Unknown).is_ok());
}

#[test]
fn hardening_the_one_exception_is_swap_where_there_is_none() {
    assert!(warnings(&created(SWAP), Swap::None).is_ok());
    assert!(warnings(&created("no cpu shares"), Swap::None).is_err());
    let mut both = created(SWAP);
    both.warnings.push("no pids limit".into());
    assert!(warnings(&both, Swap::None).is_err());

    let mut found = found();
    found.spec.host.memory_swap = -1;
    assert_eq!(field_of(&found, Swap::None), None);
    assert_eq!(field_of(&found, Swap::Some), Some("MemorySwap"));
    found.spec.host.memory_swap = 0;
    assert_eq!(field_of(&found, Swap::None), Some("MemorySwap"));
}
