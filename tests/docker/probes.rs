//! Escapes and evasions, tried from inside: each a small program that prints `HELD`, or `BREACHED` and its evidence.
//!
//! A probe counts only if it bites: the same program runs in a plain `docker run`, default flags and all, and
//! must be `BREACHED` wherever Docker's defaults allow the thing. No probe connects to anything but the bridge's
//! gateway and addresses that lead nowhere, and none writes where a write would reach the machine.

use std::process::Command;

use belljar::{engine::Sandbox, types::SandboxId};

use crate::support::{BASH, PYTHON, World, run};

const PRELUDE: &str = include_str!("probes/prelude.py");
const SERIES: &str = include_str!("probes/series.py");
const CANARY: &str = include_str!("probes/canary.sh");

/// What the same program gets from Docker without belljar.
#[derive(Clone, Copy)]
enum Plain {
    /// Breached by `docker run` with its default flags.
    Breached,
    /// Docker's default seccomp profile stops it, in some versions or in all; with that profile off it is
    /// breached, or the kernel has no such thing. In a sandbox the answer must then be our filter's.
    BreachedWithoutSeccomp,
    /// Docker holds too, for this reason.
    HeldThereToo(&'static str),
}
use Plain::{Breached, BreachedWithoutSeccomp, HeldThereToo};

struct Probe {
    name: &'static str,
    /// Python, after the prelude. Each step is a run of its own in the same container; the last one's verdict counts.
    steps: &'static [&'static str],
    plain: Plain,
}

const fn probe(name: &'static str, plain: Plain, steps: &'static [&'static str]) -> Probe {
    Probe { name, steps, plain }
}

#[rustfmt::skip] // A table: the head of each row is a line, its programs follow at the margin.
const PROBES: &[Probe] = &[
    // Files of the image and of the kernel.
    probe("write to the image's folders", Breached, &[r#"
for folder in ("/", "/etc", "/usr/bin", "/root", "/var/tmp", "/opt"):
    if not refused(open, folder + "/probe", "w"): breached(folder)
"#]),
    probe("any other folder to write to", Breached, &[r#"
ours = {"/proc", "/sys", "/workspace", "/tmp", "/dev/shm", "/dev/mqueue"}
for folder, below, _ in os.walk("/"):
    below[:] = [name for name in below if os.path.join(folder, name) not in ours]
    if os.access(folder, os.W_OK): breached(folder)
"#]),
    probe("run a program from /tmp or /dev/shm", Breached, &[r#"
for folder in ("/tmp", "/dev/shm"):
    shutil.copy("/bin/true", folder + "/true")
    if not refused(subprocess.run, [folder + "/true"]): breached(folder)
"#]),
    probe("write to the kernel's switches", HeldThereToo("Docker mounts them read-only"), &[r#"
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
             "/proc/sys/vm/panic_on_oom", "/sys/kernel/uevent_helper", "/sys/power/state"):
    if not refused(os.open, path, os.O_WRONLY): breached(path)
"#]),
    probe("write to control groups", HeldThereToo("Docker mounts them read-only"), &[r#"
seen = 0
for folder, _, files in os.walk("/sys/fs/cgroup"):
    for name in files:
        seen += 1
        if not refused(os.open, os.path.join(folder, name), os.O_WRONLY): breached(folder + "/" + name)
assert seen, "no control groups to be seen"
"#]),
    probe("mount", HeldThereToo("it grants no CAP_SYS_ADMIN"), &[r#"
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0: breached("tmpfs on /tmp")
raise OSError(ctypes.get_errno(), "")
"#]),
    probe("make a device", Breached, &[r#"
for kind, device in ((stat.S_IFCHR, (1, 1)), (stat.S_IFBLK, (8, 0))):
    for folder in ("/tmp", "/workspace", "/dev/shm"):
        if not refused(os.mknod, folder + "/device", kind | 0o600, os.makedev(*device)): breached(folder)
"#]),
    probe("chroot", Breached, &[r#"os.chroot("/usr"); breached("chroot to /usr")"#]),
    // Networks.
    probe("an interface but lo", Breached, &[r#"
others = [name for _, name in socket.if_nameindex() if name != "lo"]
if others: breached(others)
"#]),
    probe("a route", Breached, &[r#"
routes = open("/proc/net/route").readlines()[1:]
if routes: breached(routes[0])
"#]),
    probe("the bridge's gateway", Breached, &[r#"
error = connect(socket.AF_INET, socket.SOCK_STREAM, ("172.17.0.1", 9))
if error != "ENETUNREACH": breached(error or "connected")
"#]),
    probe("the metadata address", Breached, &[r#"
error = connect(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
if error != "ENETUNREACH": breached(error or "connected")
"#]),
    probe("a datagram to anywhere", Breached, &[r#"
error = connect(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 9))
if error != "ENETUNREACH": breached(error or "a way to 192.0.2.1")
"#]),
    probe("IPv6", HeldThereToo("its default bridge has none"), &[r#"
if not connect(socket.AF_INET6, socket.SOCK_DGRAM, ("2001:db8::1", 9)): breached("a way to 2001:db8::1")
"#]),
    probe("a raw socket", Breached, &[r#"
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); breached("opened")
"#]),
    probe("a packet socket", Breached, &[r#"socket.socket(17, socket.SOCK_RAW); breached("opened")"#]),
    probe("netlink of the audit", Breached, &[r#"
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9); breached("opened")
"#]),
    probe("AF_VSOCK", BreachedWithoutSeccomp, &[r#"socket.socket(40, socket.SOCK_STREAM); breached("opened")"#]),
    probe("AF_ALG", BreachedWithoutSeccomp, &[r#"socket.socket(38, socket.SOCK_SEQPACKET); breached("opened")"#]),
    probe("sockets of the container engines", HeldThereToo("nobody mounted one"), &[r#"
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
             "/run/podman/podman.sock", "/run/crio/crio.sock"):
    if os.path.lexists(path): breached(path)
"#]),
    probe("abstract sockets of the host", HeldThereToo("its network namespace is the container's own"), &[r#"
sockets = [line for line in open("/proc/net/unix").read().splitlines()[1:] if "@" in line]
if sockets: breached(sockets[0])
"#]),
    // System calls.
    probe("io_uring", BreachedWithoutSeccomp, &[r#"
room = ctypes.create_string_buffer(120)
call(425, 425, 1, ctypes.addressof(room)); breached("a ring")
"#]),
    probe("keyctl", BreachedWithoutSeccomp, &[r#"call(250, 219, 0, -3, 1); breached("the session's keyring")"#]),
    probe("userfaultfd", BreachedWithoutSeccomp, &[r#"call(323, 282, 1); breached("opened")"#]),
    probe("a user namespace", BreachedWithoutSeccomp, &[r#"call(272, 97, 0x10000000); breached("unshared")"#]),
    probe("ptrace", Breached, &[r#"call(101, 117, 0, 0, 0, 0); breached("traced")"#]),
    // Privileges.
    probe("root", Breached, &[r#"
if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()): breached("uid, gid or a group is 0")
"#]),
    probe("set-user-id programs", Breached, &[r#"
if status("NoNewPrivs") != "1": breached("NoNewPrivs is off")
said = subprocess.run(["su", "root", "-c", "id -u"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
if said.stdout.strip() == "0": breached("su gives uid 0")
"#]),
    probe("capabilities", Breached, &[r#"
for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status(kind), 16): breached(kind + " " + status(kind))
"#]),
    // PID 1 and what is left behind.
    probe("environment and memory of PID 1", Breached, &[r#"
for name in ("environ", "mem", "maps", "auxv", "pagemap", "syscall"):
    if not refused(open, "/proc/1/" + name, "rb"): breached(name)
if not refused(os.listdir, "/proc/1/fd"): breached("fd")
if not refused(os.readlink, "/proc/1/exe"): breached("exe")
"#]),
    probe("kill and stop PID 1", HeldThereToo("the kernel keeps both from the init of a namespace"), &[r#"
for number in (signal.SIGKILL, signal.SIGSTOP): refused(os.kill, 1, number)
time.sleep(0.2)
state = open("/proc/1/stat").read().rsplit(") ")[-1][0]
if state in "TtZX": breached("PID 1 is in state " + state)
"#]),
    probe("a process that outlives its run", Breached, &[r#"
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    if os.fork() == 0: os.execvp("sleep", ["sleep", "54321"])
    os._exit(0)
os.wait(); time.sleep(0.1)
"#, r#"
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: said = open(f"/proc/{pid}/cmdline").read()
    except OSError: continue
    if said == "sleep\x0054321\0": breached("process " + pid)
"#]),
    probe("System V memory that outlives its run, past /dev/shm's bound", Breached, &[r#"
libc.shmget(0x6a6172, ctypes.c_size_t(32 * MIB), 0o1600)
"#, r#"
if libc.shmget(0x6a6172, ctypes.c_size_t(32 * MIB), 0o600) != -1: breached("32 MiB")
"#]),
    probe("System V messages that outlive their run", Breached, &[r#"
queues = [libc.msgget(0, 0o1600) for _ in range(1000)]
for queue in queues: libc.msgsnd(queue, ctypes.byref(ctypes.create_string_buffer(b"\1" * 8200)), ctypes.c_size_t(8000), 0o4000)
"#, r#"
left = open("/proc/sysvipc/msg").read().splitlines()[1:]
if left: breached(f"{len(left)} queues, {sum(int(line.split()[3]) for line in left)} bytes")
"#]),
    // Budgets. A probe that held takes away what it wrote, for the next one.
    probe("memory", Breached, &[r#"
if os.fork() == 0:
    full = b"\1" * (900 * MIB); os._exit(0)
if os.wait()[1] == 0: breached("900 MiB")
"#]),
    probe("processes", Breached, &[r#"
children = []
def spawn():
    pid = os.fork()
    if pid == 0: signal.pause()
    children.append(pid)
error = None
while not error and len(children) < 200: error = refused(spawn)
for pid in children: os.kill(pid, signal.SIGKILL)
if not error: breached("200 processes")
"#]),
    probe("open files", Breached, &[r#"
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(2048)]
breached(f"{len(files)} open files")
"#]),
    probe("core dumps", Breached, &[r#"
most = resource.getrlimit(resource.RLIMIT_CORE)[1]
if most: breached(f"the limit can be raised to {most}")
"#]),
    probe("fill /dev/shm", Breached, &[r#"
try: write("/dev/shm/full", 32 * MIB); breached("32 MiB")
finally: os.unlink("/dev/shm/full")
"#]),
    probe("fill /tmp", Breached, &[r#"
try: write("/tmp/full", 80 * MIB); breached("80 MiB")
finally: os.unlink("/tmp/full")
"#]),
    probe("fill the workspace", Breached, &[r#"
try:
    for n in range(5): write(f"/workspace/full{n}", 64 * MIB)
    breached("320 MiB")
finally:
    for n in range(5): refused(os.unlink, f"/workspace/full{n}")
"#]),
    probe("a sparse file larger than the workspace", Breached, &[r#"
try: os.truncate(os.open("/workspace/sparse", os.O_CREAT | os.O_RDWR), 257 * MIB); breached("257 MiB")
finally: os.unlink("/workspace/sparse")
"#]),
    probe("fill /tmp with empty files", Breached, &[r#"
os.mkdir("/tmp/many")
try:
    for n in range(20_000): os.mknod(f"/tmp/many/{n}")
    breached("20,000 files")
finally: shutil.rmtree("/tmp/many")
"#]),
    // What a program learns.
    probe("the container's id as host name", Breached, &[r#"
if re.fullmatch("[0-9a-f]{12}", os.uname().nodename): breached(os.uname().nodename)
"#]),
];

/// The verdict of each step of each probe, one container for all.
fn plain(probes: &[&Probe], flags: &[&str]) -> Vec<String> {
    let output = Command::new("docker")
        .args(["run", "--rm"])
        .args(flags)
        .args([PYTHON, "python3", "-c", SERIES, PRELUDE])
        .args(probes.iter().flat_map(|probe| probe.steps))
        .output()
        .expect("these tests need the `docker` command");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = said.lines();
    let verdicts: Vec<String> = probes
        .iter()
        .filter_map(|probe| lines.by_ref().take(probe.steps.len()).last())
        .map(str::to_owned)
        .collect();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(verdicts.len(), probes.len(), "{said}{complaint}");
    verdicts
}

/// The same in one sandbox, each step a run.
async fn sandboxed(sandbox: &Sandbox, probe: &Probe) -> String {
    let mut verdict = String::new();
    for step in probe.steps {
        let ran = run(sandbox, &["python3", "-c", PRELUDE, step]).await;
        verdict = match ran.stdout.trim() {
            "" => format!("no verdict: {ran:?}"),
            said => said.to_owned(),
        };
    }
    verdict
}

#[tokio::test]
async fn every_probe_holds_inside_and_bites_on_plain_docker() {
    let without_seccomp: Vec<&Probe> = PROBES
        .iter()
        .filter(|probe| matches!(probe.plain, BreachedWithoutSeccomp))
        .collect();
    // Beside the sandbox, whose guest must be heard meanwhile.
    let on_docker = tokio::task::spawn_blocking(move || {
        let all: Vec<&Probe> = PROBES.iter().collect();
        let mut loosened =
            plain(&without_seccomp, &["--security-opt", "seccomp=unconfined"]).into_iter();
        let verdicts = plain(&all, &[]).into_iter().zip(PROBES);
        verdicts
            .map(|(verdict, probe)| match probe.plain {
                Breached | HeldThereToo(_) => verdict,
                BreachedWithoutSeccomp => loosened.next().unwrap(),
            })
            .collect::<Vec<_>>()
    });
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let mut inside = Vec::new();
    for probe in PROBES {
        inside.push(sandboxed(&sandbox, probe).await);
    }
    sandbox.destroy().await.unwrap();
    world.engine.close().await;

    let mut failures = Vec::new();
    for ((probe, inside), outside) in PROBES.iter().zip(inside).zip(on_docker.await.unwrap()) {
        println!("{}: {inside} inside, {outside} on plain Docker", probe.name);
        failures.extend(wrong_inside(probe, &inside));
        failures.extend(wrong_outside(probe, &outside));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn wrong_inside(probe: &Probe, said: &str) -> Option<String> {
    let held = match probe.plain {
        BreachedWithoutSeccomp => said == "HELD EPERM",
        Breached | HeldThereToo(_) => is(said, "HELD"),
    };
    (!held).then(|| format!("{} did not hold: {said}", probe.name))
}

/// What a kernel says that was built without the thing.
const ABSENT: [&str; 2] = ["HELD EAFNOSUPPORT", "HELD ENOSYS"];

fn wrong_outside(probe: &Probe, said: &str) -> Option<String> {
    let (expected, why) = match probe.plain {
        Breached => (is(said, "BREACHED"), "did not bite on plain Docker".into()),
        BreachedWithoutSeccomp => (
            is(said, "BREACHED") || ABSENT.contains(&said),
            "did not bite on plain Docker without seccomp".into(),
        ),
        HeldThereToo(reason) => (
            is(said, "HELD"),
            format!("should hold on plain Docker too, since {reason}"),
        ),
    };
    (!expected).then(|| format!("{} {why}: {said}", probe.name))
}

/// Whether a verdict is this one, with or without evidence.
fn is(said: &str, verdict: &str) -> bool {
    said.split(' ').next() == Some(verdict)
}

/// Names the secret in the environment of the process that is the server here.
const SECRET: &str = "BELLJAR_TEST_SECRET";

/// The environment of a process is planted by whoever starts it: the test starts itself anew. The secret is
/// also in that process's Docker configuration, as the proxy that `docker run` hands to every container.
#[test]
fn a_secret_of_the_server_is_nowhere_inside() {
    if let Ok(secret) = std::env::var(SECRET) {
        return look_for(&secret);
    }
    let secret = SandboxId::random().to_string();
    let config = tempfile::tempdir().unwrap();
    let proxy =
        format!(r#"{{"proxies": {{"default": {{"httpProxy": "http://{secret}@192.0.2.1:9"}}}}}}"#);
    std::fs::write(config.path().join("config.json"), proxy).unwrap();
    // The configuration also names the daemon, where it is not the default one.
    let daemon = Command::new("docker")
        .args([
            "context",
            "inspect",
            "--format",
            "{{.Endpoints.docker.Host}}",
        ])
        .output()
        .expect("these tests need the `docker` command");
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "probes::a_secret_of_the_server_is_nowhere_inside",
        ])
        .arg("--nocapture")
        .env(SECRET, &secret)
        .env("DOCKER_CONFIG", config.path())
        .env(
            "DOCKER_HOST",
            String::from_utf8(daemon.stdout).unwrap().trim(),
        )
        .status()
        .unwrap();
    assert!(
        status.success(),
        "the test that was given the secret failed"
    );
}

#[tokio::main(flavor = "current_thread")]
async fn look_for(secret: &str) {
    let (one, other) = secret.split_at(secret.len() / 2);
    let argv = ["bash", "-c", CANARY, "canary", one, other];
    let outside = Command::new("docker")
        .args(["run", "--rm", BASH])
        .args(argv)
        .output()
        .expect("these tests need the `docker` command");
    let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
    assert!(is(outside.trim(), "BREACHED"), "did not bite: {outside}");

    let world = World::new();
    let sandbox = world.launch(BASH).await;
    let inside = run(&sandbox, &argv).await;
    assert_eq!(inside.stdout.trim(), "HELD", "{inside:?}");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}
