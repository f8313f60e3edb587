//! Each row of the hardening table, read back from a live container and, where it can be seen there, from inside.

use belljar::{
    engine::{seccomp, tether::message::ExitStatus},
    types::LimitsRequest,
};
use bollard::models::{
    ContainerConfig, ContainerInspectResponse, HostConfig, HostConfigCgroupnsModeEnum, MountType,
    RestartPolicyNameEnum,
};

use crate::support::{BASH, World, bash, container, permit};

const MIB: i64 = 1024 * 1024;

/// A live container as the daemon reports it.
async fn reported() -> (u32, ContainerInspectResponse, ContainerConfig, HostConfig) {
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    let mut found = container(&sandbox).await;
    let config = found.config.take().unwrap();
    let host = found.host_config.take().unwrap();
    let uid = sandbox.uid();
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
    (uid, found, config, host)
}

#[tokio::test]
async fn identity_and_privileges_are_what_the_daemon_reports() {
    let (uid, _, config, host) = reported().await;
    assert_eq!(config.user.unwrap(), format!("{uid}:{uid}"), "User");
    assert!((52_000..=54_047).contains(&uid), "User");
    assert_eq!(host.readonly_rootfs, Some(true), "ReadonlyRootfs");
    assert_eq!(host.cap_drop.unwrap(), ["ALL"], "CapDrop");
    assert!(host.cap_add.unwrap_or_default().is_empty(), "CapAdd");
    let security = host.security_opt.unwrap();
    assert!(
        security.contains(&"no-new-privileges".to_owned()),
        "SecurityOpt"
    );
    assert!(
        security.contains(&format!("seccomp={}", seccomp::PROFILE)),
        "SecurityOpt"
    );
    assert_eq!(host.network_mode.as_deref(), Some("none"), "NetworkMode");
    assert_eq!(host.ipc_mode.as_deref(), Some("private"), "IpcMode");
    let private = Some(HostConfigCgroupnsModeEnum::PRIVATE);
    assert_eq!(host.cgroupns_mode, private, "CgroupnsMode");
    assert_eq!(host.dns.unwrap(), ["127.0.0.1"], "Dns");
    assert_eq!(host.dns_search.unwrap(), ["."], "DnsSearch");
    assert_eq!(host.privileged, Some(false), "Privileged");
    assert!(host.devices.unwrap_or_default().is_empty(), "Devices");
    assert!(
        host.port_bindings.unwrap_or_default().is_empty(),
        "PortBindings"
    );
    assert!(
        !host.masked_paths.unwrap().is_empty(),
        "MaskedPaths are Docker's own"
    );
    assert!(
        !host.readonly_paths.unwrap().is_empty(),
        "ReadonlyPaths are Docker's own"
    );
}

#[tokio::test]
async fn limits_and_mounts_are_what_the_daemon_reports() {
    let (_, found, _, host) = reported().await;
    let memory = Some((512 + 256 + 64 + 16 + 32) * MIB);
    assert_eq!((host.memory, host.memory_swap), (memory, memory), "Memory");
    assert_eq!(host.pids_limit, Some(128), "PidsLimit");
    assert_eq!(host.nano_cpus, Some(1_000_000_000), "NanoCpus");
    let mut ulimits: Vec<_> = host
        .ulimits
        .unwrap()
        .into_iter()
        .map(|limit| {
            (
                limit.name.unwrap(),
                limit.soft.unwrap(),
                limit.hard.unwrap(),
            )
        })
        .collect();
    ulimits.sort();
    let expected = [("core", 0), ("fsize", 256 * MIB), ("nofile", 1024)];
    let expected = expected.map(|(name, value)| (name.to_owned(), value, value));
    assert_eq!(ulimits, expected, "Ulimits");
    assert_eq!(host.shm_size, Some(16 * MIB), "ShmSize");
    for (path, options) in host.tmpfs.unwrap() {
        for word in [
            "size=",
            "nr_inodes=",
            "nosuid",
            "nodev",
            "mode=",
            "uid=",
            "gid=",
        ] {
            assert!(options.contains(word), "Tmpfs {path}: {options}");
        }
        assert_eq!(
            options.ends_with(",exec"),
            path == "/workspace",
            "Tmpfs {path}"
        );
    }
    assert!(host.oom_score_adj.unwrap() > 0, "OomScoreAdj");
    assert_ne!(host.oom_kill_disable, Some(true), "OomKillDisable");
    assert!(host.binds.unwrap_or_default().is_empty(), "Binds");
    let mounts = host.mounts.unwrap();
    assert_eq!(mounts.len(), 1, "Mounts");
    assert_eq!(mounts[0].typ, Some(MountType::VOLUME), "Mounts");
    assert_eq!(mounts[0].read_only, Some(true), "Mounts");
    let options = mounts[0].volume_options.as_ref().unwrap();
    assert_eq!(options.no_copy, Some(true), "Mounts");
    assert_eq!(found.mounts.unwrap().len(), 1, "Mounts");
}

#[tokio::test]
async fn process_and_lifecycle_are_what_the_daemon_reports() {
    let (_, _, config, host) = reported().await;
    assert_eq!(
        host.log_config.unwrap().typ.as_deref(),
        Some("none"),
        "LogConfig"
    );
    assert_eq!(host.auto_remove, Some(false), "AutoRemove");
    let restart = host.restart_policy.unwrap().name;
    assert_eq!(restart, Some(RestartPolicyNameEnum::NO), "RestartPolicy");
    assert_eq!(config.open_stdin, Some(true), "OpenStdin");
    assert_eq!(config.stdin_once, Some(true), "StdinOnce");
    assert_eq!(config.tty, Some(false), "Tty");
    for variable in config.env.unwrap() {
        assert!(
            variable.starts_with("PATH=/") || !variable.contains('='),
            "Env: {variable}"
        );
    }
    assert_eq!(
        config.working_dir.as_deref(),
        Some("/workspace"),
        "WorkingDir"
    );
    assert_eq!(config.hostname.as_deref(), Some("sandbox"), "Hostname");
    assert_eq!(
        host.runtime.as_deref(),
        Some("runc"),
        "Runtime: the daemon's default, named"
    );
    assert_eq!(config.stop_signal.as_deref(), Some("SIGKILL"), "Stop");
    assert_eq!(
        config.healthcheck.unwrap().test.unwrap(),
        ["NONE"],
        "Healthcheck"
    );
    assert_eq!(config.entrypoint.unwrap(), ["/.belljar/init"], "Entrypoint");
    assert!(config.cmd.unwrap_or_default().is_empty(), "Cmd");
}

#[tokio::test]
async fn every_row_is_what_a_program_sees() {
    let world = World::new();
    let sandbox = world.launch(BASH).await;
    let uid = sandbox.uid();
    let status = bash(&sandbox, "cat /proc/self/status").await.ok();
    for line in [
        &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}"),
        &format!("Gid:\t{uid}\t{uid}\t{uid}\t{uid}"),
        "CapPrm:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let groups = bash(&sandbox, "id -G").await.ok();
    assert_eq!(groups.trim(), uid.to_string());
    assert_eq!(
        bash(&sandbox, "cat /proc/net/dev | grep -c :").await.ok(),
        "1\n",
        "only loopback"
    );
    assert_eq!(bash(&sandbox, "uname -n").await.ok(), "sandbox\n");
    assert_eq!(
        bash(&sandbox, "ulimit -c; ulimit -n").await.ok(),
        "0\n1024\n"
    );
    let resolver = bash(&sandbox, "cat /etc/resolv.conf").await.ok();
    assert!(
        resolver.contains("nameserver 127.0.0.1") && !resolver.contains("search a"),
        "{resolver}"
    );
    for path in [
        "/",
        "/etc",
        "/usr/bin",
        "/.belljar",
        "/proc/sys/kernel",
        "/sys",
    ] {
        let ran = bash(&sandbox, &format!("echo x > {path}/x")).await;
        assert_ne!(ran.exit.status, ExitStatus::Code(0), "{path}");
    }
    let mounts = bash(
        &sandbox,
        "grep -E ' (/workspace|/tmp|/dev/shm) ' /proc/mounts",
    )
    .await
    .ok();
    assert_eq!(mounts.lines().count(), 3, "{mounts}");
    for line in mounts.lines() {
        assert!(
            line.contains("nosuid") && line.contains("nodev") && line.contains("size="),
            "{line}"
        );
        assert_eq!(
            !line.contains("noexec"),
            line.contains("/workspace"),
            "{line}"
        );
    }
    assert_eq!(
        bash(&sandbox, "for d in /workspace /tmp /dev/shm; do touch $d/x && echo ok; done; stat -c %u /workspace").await.ok(),
        format!("ok\nok\nok\n{uid}\n")
    );
    // The guest itself: neither readable nor a channel, and nothing of PID 1 can be read.
    for path in [
        "/.belljar/init",
        "/proc/1/environ",
        "/proc/1/mem",
        "/proc/1/maps",
    ] {
        let ran = bash(&sandbox, &format!("cat {path}")).await;
        assert!(ran.stderr.contains("Permission denied"), "{path}: {ran:?}");
    }
    assert_eq!(
        bash(&sandbox, "cat /proc/1/oom_score_adj").await.ok(),
        "500\n"
    );
    let cgroup = bash(&sandbox, "cat /proc/self/cgroup").await.ok();
    assert!(!cgroup.contains("docker"), "CgroupnsMode: {cgroup}");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn limits_are_the_caller_s() {
    let world = World::new();
    let limits = LimitsRequest {
        memory_mib: Some(64),
        cpus: Some(0.5),
        pids: Some(16),
        workspace_mib: Some(1),
        output_kib: None,
    };
    let sandbox = world.engine.launch(&permit(BASH, limits)).await.unwrap();
    let host = container(&sandbox).await.host_config.unwrap();
    assert_eq!(host.memory, Some((64 + 1 + 64 + 16 + 32) * MIB));
    assert_eq!(host.nano_cpus, Some(500_000_000));
    assert_eq!(host.pids_limit, Some(16));
    let full = bash(&sandbox, "head -c 2M /dev/zero > big").await;
    assert!(!full.stderr.is_empty() || full.exit.status != ExitStatus::Code(0));
    let bomb = bash(
        &sandbox,
        "for i in $(seq 40); do sleep 5 & done; jobs -p | wc -l",
    )
    .await;
    assert!(bomb.stderr.contains("fork"), "{bomb:?}");
    assert_eq!(bash(&sandbox, "echo alive").await.ok(), "alive\n");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn user_is_distinct_among_live_sandboxes() {
    let world = World::new();
    let other = World::new();
    let (a, b, c) = tokio::join!(world.launch(BASH), world.launch(BASH), other.launch(BASH));
    let mut uids = [a.uid(), b.uid(), c.uid()];
    uids.sort_unstable();
    assert!(uids[0] != uids[1] && uids[1] != uids[2], "{uids:?}");
    drop((a, b, c));
    world.engine.close().await;
    other.engine.close().await;
}
