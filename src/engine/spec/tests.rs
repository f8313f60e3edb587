use super::*;
use crate::{
    engine::{daemon::Info, guest_binary::Architecture, host::Runtime},
    types::Cpus,
};

const UID: u32 = 52_007;

struct World {
    launch: Launch,
    image: Image,
    host: Host,
    instance: InstanceId,
    id: SandboxId,
}

impl World {
    fn new() -> Self {
        Self {
            launch: Launch {
                image: "belljar/python:latest".into(),
                shm_mib: 16,
                limits: Limits::DEFAULT,
                warm_up: None,
            },
            image: Image {
                id: "sha256:abc".into(),
                env: vec![
                    "PATH=/evil".into(),
                    "LD_PRELOAD=/evil.so".into(),
                    "EMPTY=".into(),
                    "LD_PRELOAD=again".into(),
                    "=nameless".into(),
                ],
                ..Image::default()
            },
            host: Host {
                info: Info::default(),
                runtime: Runtime {
                    name: "runc".into(),
                    kind: RuntimeKind::HostKernel,
                },
                apparmor: AppArmor::Absent,
                architecture: Architecture::X86_64,
            },
            instance: InstanceId::random(),
            id: SandboxId::random(),
        }
    }

    fn spec(&self) -> ContainerSpec {
        sandbox(&Ask {
            launch: &self.launch,
            image: &self.image,
            host: &self.host,
            guest_volume: "guest",
            uid: UID,
            instance: &self.instance,
            sandbox: &self.id,
            created: "2026-01-01T00:00:00Z",
        })
    }
}

fn spec() -> ContainerSpec {
    World::new().spec()
}

#[test]
fn hardening_user_is_numeric_and_not_root() {
    assert_eq!(spec().user, "52007:52007");
}

#[test]
fn hardening_readonly_rootfs() {
    assert!(spec().host.readonly_rootfs);
}

#[test]
fn hardening_cap_drop_all_and_add_none() {
    let host = spec().host;
    assert_eq!(host.cap_drop, ["ALL"]);
    assert!(host.cap_add.is_empty());
}

#[test]
fn hardening_security_opt_is_ours_and_explicit() {
    let mut world = World::new();
    let options = world.spec().host.security_opt;
    assert_eq!(options[0], "no-new-privileges");
    assert_eq!(options[1], format!("seccomp={}", seccomp::PROFILE));
    assert_eq!(options.len(), 2);
    world.host.apparmor = AppArmor::Present;
    assert_eq!(world.spec().host.security_opt[2], "apparmor=docker-default");
}

#[test]
fn hardening_network_mode_none() {
    assert_eq!(spec().host.network_mode, "none");
}

#[test]
fn hardening_memory_counts_every_tmpfs_and_equals_swap() {
    let host = spec().host;
    let mib = 1024 * 1024;
    assert_eq!(host.memory, (512 + 256 + 64 + 16 + 32) * mib);
    assert_eq!(host.memory_swap, host.memory);
}

#[test]
fn hardening_pids_limit_and_nproc_differ_by_runtime() {
    let mut world = World::new();
    assert_eq!(world.spec().host.pids_limit, 128);
    assert_eq!(nproc(&world.launch.limits, RuntimeKind::HostKernel), None);
    world.host.runtime.kind = RuntimeKind::Gvisor;
    assert_eq!(world.spec().host.pids_limit, 1024);
    assert_eq!(
        nproc(&world.launch.limits, RuntimeKind::Gvisor),
        Some(129),
        "and the stub"
    );
    world.launch.limits.pids = 1024;
    assert_eq!(world.spec().host.pids_limit, 3072);
}

#[test]
fn hardening_nano_cpus() {
    let mut world = World::new();
    world.launch.limits.cpus = Cpus::from_millis(1500);
    assert_eq!(world.spec().host.nano_cpus, 1_500_000_000);
}

#[test]
fn hardening_ulimits() {
    let limits = spec().host.ulimits;
    assert_eq!(limits.len(), 3);
    assert_eq!(limits["core"], 0);
    assert_eq!(limits["nofile"], 1024);
    assert_eq!(limits["fsize"], 256 * 1024 * 1024);
}

#[test]
fn hardening_shm_size_is_explicit() {
    assert_eq!(spec().host.shm_size, 16 * 1024 * 1024);
}

#[test]
fn hardening_tmpfs_each_with_every_bound() {
    let tmpfs = spec().host.tmpfs;
    assert_eq!(
        tmpfs["/workspace"],
        "size=268435456,nr_inodes=65536,mode=1777,uid=52007,gid=52007,nosuid,nodev,exec"
    );
    assert_eq!(
        tmpfs["/tmp"],
        "size=67108864,nr_inodes=16384,mode=1777,uid=52007,gid=52007,nosuid,nodev,noexec"
    );
    assert_eq!(tmpfs.len(), 3);
}

#[test]
fn hardening_tmpfs_covers_terminals_where_the_kernel_is_shared() {
    let mut world = World::new();
    let cover = "size=4096,nr_inodes=1,mode=0555,uid=0,gid=0,nosuid,nodev,noexec";
    assert_eq!(world.spec().host.tmpfs["/dev/pts"], cover);
    world.host.runtime.kind = RuntimeKind::Gvisor;
    assert!(!world.spec().host.tmpfs.contains_key("/dev/pts"));
}

#[test]
fn hardening_tmpfs_the_least_workspace_still_holds_files() {
    let mut world = World::new();
    world.launch.limits.workspace_mib = 1;
    assert!(world.spec().host.tmpfs["/workspace"].contains("nr_inodes=4096,"));
}

#[test]
fn hardening_ipc_and_cgroupns_private() {
    let host = spec().host;
    assert_eq!(host.ipc_mode, "private");
    assert_eq!(host.cgroupns_mode, "private");
}

#[test]
fn hardening_log_config_none() {
    assert_eq!(spec().host.log_driver, "none");
}

#[test]
fn hardening_auto_remove_false_and_restart_no() {
    let host = spec().host;
    assert!(!host.auto_remove);
    assert_eq!(host.restart_policy, "no");
}

#[test]
fn hardening_oom_score_adj_is_positive() {
    assert!(spec().host.oom_score_adj > 0);
}

#[test]
fn hardening_stdin_open_once_and_no_tty() {
    assert_eq!(spec().stdio, Stdio::Once);
}

#[test]
fn hardening_env_holds_nothing_of_the_image_or_the_server() {
    assert_eq!(spec().env, [INIT_PATH, "LD_PRELOAD", "EMPTY"]);
}

#[test]
fn hardening_working_dir_is_absolute_and_no_special_file_system() {
    let dir = spec().working_dir;
    assert!(dir.starts_with('/'));
    assert!(
        !["/proc", "/sys", "/dev"]
            .iter()
            .any(|bad| dir.starts_with(bad))
    );
}

#[test]
fn hardening_hostname_is_one_constant() {
    assert_eq!(spec().hostname, "sandbox");
    assert_eq!(spec().domainname, "");
}

#[test]
fn hardening_runtime_is_named() {
    assert_eq!(spec().host.runtime, "runc");
}

#[test]
fn hardening_dns_leads_nowhere() {
    let host = spec().host;
    assert_eq!(host.dns, ["127.0.0.1"]);
    assert_eq!(host.dns_search, ["."]);
}

#[test]
fn hardening_mounts_only_the_guest_read_only_and_never_copied_to() {
    assert_eq!(
        spec().host.mounts,
        [VolumeMount {
            volume: "guest".into(),
            target: "/.belljar".into(),
            access: Access::ReadOnly,
            seeding: Seeding::Never,
        }]
    );
}

#[test]
fn hardening_the_image_s_configuration_is_overridden() {
    let spec = spec();
    assert_eq!(spec.image, "sha256:abc", "the id, not the reference");
    assert_eq!(spec.entrypoint, ["/.belljar/init"]);
    assert!(spec.command.is_empty());
    assert_eq!(spec.healthcheck, ["NONE"]);
}

/// A process that may be killed by whatever runs beside it must not be the guest.
#[test]
fn hardening_command_puts_an_init_between_guest_and_program_under_gvisor() {
    let mut world = World::new();
    assert!(world.spec().command.is_empty());
    world.host.runtime.kind = RuntimeKind::Gvisor;
    assert_eq!(world.spec().command, [belljar_wire::STUB_ARGUMENT]);
}

#[test]
fn hardening_stop_is_a_kill() {
    assert_eq!(spec().stop_signal, "SIGKILL");
}

#[test]
fn labels_name_instance_role_session_creation_and_uid() {
    let world = World::new();
    let labels = world.spec().labels;
    let expected: BTreeMap<String, String> = [
        ("belljar.instance", world.instance.as_str()),
        ("belljar.role", "sandbox"),
        ("belljar.session", world.id.as_str()),
        ("belljar.created", "2026-01-01T00:00:00Z"),
        ("belljar.uid", "52007"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert_eq!(labels, expected);
}

#[test]
fn a_name_leads_back_to_its_instance() {
    let instance = InstanceId::random();
    let name = container_name(&instance, 42);
    assert_eq!(name, format!("belljar-{instance}-42"));
    assert_eq!(instance_of(&name), Some(instance));
    for other in ["", "belljar-", "belljar-x-1", "postgres", "belljar-guest-1"] {
        assert_eq!(instance_of(other), None, "{other}");
    }
}
