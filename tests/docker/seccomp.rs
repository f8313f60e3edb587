//! The system calls, tried from inside.

use belljar::engine::tether::message::ExitStatus;

use crate::support::{BASH, JAVASCRIPT, PYTHON, World, bash, python, run};

/// Tries each call and prints its name and what came of it: `ok`, or the error's name. Calls of a
/// foreign ABI are tried in a child, whose death is printed.
const PROBES: &str = r#"
import ctypes, errno, mmap, os, platform, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
def call(name, nr, *args):
    nr = nr[0] if x86 else nr[1]
    if nr is None: return
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) for a in args])
    print(name, "ok" if result != -1 else errno.errorcode[ctypes.get_errno()])
def sock(name, *args):
    try:
        socket.socket(*args).close(); print(name, "ok")
    except OSError as e: print(name, errno.errorcode[e.errno])
def child(name, act):
    pid = os.fork()
    if pid == 0:
        act(); os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(name, signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "survived")
call("io_uring_setup", (425, 425), 1, 0)
call("add_key", (248, 217), 0, 0, 0, 0, 0)
call("request_key", (249, 218), 0, 0, 0, 0)
call("keyctl", (250, 219), 0, 0)
call("userfaultfd", (323, 282), 0)
call("bpf", (321, 280), 0, 0, 0)
call("perf_event_open", (298, 241), 0, 0, 0, 0, 0)
call("ptrace", (101, 117), 0, 0, 0, 0)
call("process_vm_readv", (310, 270), os.getpid(), 0, 0, 0, 0, 0)
call("process_vm_writev", (311, 271), os.getpid(), 0, 0, 0, 0, 0)
call("kcmp", (312, 272), 1, 1, 0, 0, 0)
call("mount", (165, 40), 0, 0, 0, 0, 0)
call("umount2", (166, 39), 0, 0)
call("pivot_root", (155, 41), 0, 0)
call("chroot", (161, 51), 0)
call("unshare-user", (272, 97), 0x10000000)
call("setns", (308, 268), 0, 0)
call("clone-newuser", (56, 220), 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", (435, 435), 0, 0)
call("name_to_handle_at", (303, 264), -100, 0, 0, 0, 0)
call("open_by_handle_at", (304, 265), -1, 0, 0)
call("memfd_secret", (447, 447), 0)
call("personality", (135, 92), 0x0040000)
call("prlimit-1", (302, 261), 1, 0, 0, 0)
call("prlimit-self", (302, 261), 0, 0, 0, 0)
call("init_module", (175, 105), 0, 0, 0)
call("syslog", (103, 116), 3, 0, 0)
call("seccomp", (317, 277), 0, 0, 0)
call("pidfd_getfd", (438, 438), -1, 0, 0)
call("unknown-9999", (9999, 9999))
sock("AF_UNIX", socket.AF_UNIX, socket.SOCK_STREAM)
sock("AF_INET-tcp", socket.AF_INET, socket.SOCK_STREAM)
sock("AF_INET-udp", socket.AF_INET, socket.SOCK_DGRAM)
sock("AF_INET6-tcp", socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
sock("AF_INET-raw", socket.AF_INET, socket.SOCK_RAW, 1)
sock("AF_INET-ping", socket.AF_INET, socket.SOCK_DGRAM, 1)
sock("AF_INET-sctp", socket.AF_INET, socket.SOCK_STREAM, 132)
sock("AF_INET-dccp", socket.AF_INET, 6, 33)
sock("AF_ALG", 38, socket.SOCK_SEQPACKET)
sock("AF_VSOCK", 40, socket.SOCK_STREAM)
sock("AF_PACKET", 17, socket.SOCK_RAW)
sock("AF_NETLINK-route", socket.AF_NETLINK, socket.SOCK_RAW, 0)
sock("AF_NETLINK-audit", socket.AF_NETLINK, socket.SOCK_RAW, 9)
sock("AF_NETLINK-netfilter", socket.AF_NETLINK, socket.SOCK_RAW, 12)
sock("AF_BLUETOOTH", 31, socket.SOCK_RAW)
if x86:
    def i386():
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    child("i386", i386)
    child("x32", lambda: libc.syscall(ctypes.c_long(0x40000000 | 39)))
"#;

const EXPECTED: &[(&str, &str)] = &[
    ("io_uring_setup", "EPERM"),
    ("add_key", "EPERM"),
    ("request_key", "EPERM"),
    ("keyctl", "EPERM"),
    ("userfaultfd", "EPERM"),
    ("bpf", "EPERM"),
    ("perf_event_open", "EPERM"),
    ("ptrace", "EPERM"),
    ("process_vm_readv", "EPERM"),
    ("process_vm_writev", "EPERM"),
    ("kcmp", "EPERM"),
    ("mount", "EPERM"),
    ("umount2", "EPERM"),
    ("pivot_root", "EPERM"),
    ("chroot", "EPERM"),
    ("unshare-user", "EPERM"),
    ("setns", "EPERM"),
    ("clone-newuser", "EPERM"),
    ("clone3", "ENOSYS"),
    ("name_to_handle_at", "EPERM"),
    ("open_by_handle_at", "EPERM"),
    ("memfd_secret", "EPERM"),
    ("personality", "EPERM"),
    ("prlimit-1", "EPERM"),
    ("prlimit-self", "ok"),
    ("init_module", "EPERM"),
    ("syslog", "EPERM"),
    ("seccomp", "EPERM"),
    ("pidfd_getfd", "EPERM"),
    ("unknown-9999", "ENOSYS"),
    ("AF_UNIX", "ok"),
    ("AF_INET-tcp", "ok"),
    ("AF_INET-udp", "ok"),
    ("AF_INET6-tcp", "ok"),
    ("AF_INET-raw", "EPERM"),
    ("AF_INET-ping", "EPERM"),
    ("AF_INET-sctp", "EPERM"),
    ("AF_INET-dccp", "EPERM"),
    ("AF_ALG", "EPERM"),
    ("AF_VSOCK", "EPERM"),
    ("AF_PACKET", "EPERM"),
    ("AF_NETLINK-route", "ok"),
    ("AF_NETLINK-audit", "EPERM"),
    ("AF_NETLINK-netfilter", "EPERM"),
    ("AF_BLUETOOTH", "EPERM"),
    #[cfg(target_arch = "x86_64")]
    ("i386", "SIGSYS"),
    #[cfg(target_arch = "x86_64")]
    ("x32", "SIGSYS"),
];

#[tokio::test]
async fn each_call_does_exactly_what_the_profile_says() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let said = python(&sandbox, PROBES).await.ok();
    let said: Vec<(&str, &str)> = said
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    assert_eq!(said, EXPECTED);
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn what_programs_need_works() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let script = r"
import asyncio, concurrent.futures as f, multiprocessing as mp, os, socket, sqlite3, ssl, subprocess, tempfile, threading
with f.ThreadPoolExecutor(8) as pool: assert sum(pool.map(lambda x: x, range(100))) == 4950
mp.set_start_method('fork')
with mp.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(['sh', '-c', 'echo hi | cat'], capture_output=True).stdout == b'hi\n'
async def echo():
    server = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await r.read() == b''
asyncio.run(echo())
os.mkfifo('fifo'); os.symlink('a', 'b'); os.link('fifo', 'fifo2')
with tempfile.NamedTemporaryFile() as t: t.write(b'x')
db = sqlite3.connect('x.db'); db.execute('create table t(a)'); db.commit()
print(socket.gethostname(), os.cpu_count() > 0, socket.if_nameindex())
";
    assert_eq!(
        python(&sandbox, script).await.ok(),
        "sandbox True [(1, 'lo')]\n"
    );
    let pip = run(&sandbox, &["python3", "-m", "pip", "--version"])
        .await
        .ok();
    assert!(pip.starts_with("pip "), "{pip}");
    let numpy = python(
        &sandbox,
        "import numpy as n; print(int((n.ones((200,200)) @ n.ones((200,200))).sum()))",
    )
    .await;
    assert_eq!(numpy.ok(), "8000000\n");
    drop(sandbox);

    let sandbox = world.launch(BASH).await;
    let git = "git init -q r && cd r && git config user.email a@b && git config user.name x && echo 1 > f && git add f \
               && git commit -qm m && git log --format=%s; ls / | head -1 | tee x; (sleep 0.01; echo late) & wait";
    assert!(bash(&sandbox, git).await.ok().starts_with("m\n"));
    drop(sandbox);

    let sandbox = world.launch(JAVASCRIPT).await;
    let node = "const {Worker} = require('worker_threads'); const {execSync} = require('child_process'); \
                const fs = require('fs').promises; \
                new Worker('', {eval: true}).on('exit', async () => { await fs.writeFile('f', 'x'); \
                console.log(execSync('cat f').toString()) })";
    assert_eq!(run(&sandbox, &["node", "-e", node]).await.ok(), "x\n");
    drop(sandbox);
    world.engine.close().await;
}

#[tokio::test]
async fn pid_1_cannot_be_harmed_from_inside() {
    let world = World::new();
    let sandbox = world.launch(PYTHON).await;
    let script = r"
import os, resource, signal
for s in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1):
    try: os.kill(1, s)
    except PermissionError: pass
try: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)); print('breached')
except PermissionError: print('refused')
";
    assert_eq!(python(&sandbox, script).await.ok(), "refused\n");
    let all = bash(&sandbox, "kill -9 -1").await;
    assert_ne!(all.exit.status, ExitStatus::Code(0));
    assert_eq!(bash(&sandbox, "echo alive").await.ok(), "alive\n");
    sandbox.destroy().await.unwrap();
    world.engine.close().await;
}
