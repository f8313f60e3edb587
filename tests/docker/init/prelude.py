# What the programs of `init.rs` are made of: each function tries something and says what came of it.
import ctypes, errno, fcntl, os, resource, signal, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"clone": 56, "ptrace": 101, "mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "clone3": 435},
    "aarch64": {"clone": 220, "ptrace": 117, "mount": 40, "umount2": 39, "unshare": 97, "setns": 268, "clone3": 435},
}[os.uname().machine]
NEW_USER, NEW_PID, NEW_MOUNT = 0x10000000, 0x20000000, 0x20000


def call(name, *arguments):
    """Makes a system call; the name of its error, or its result."""
    arguments = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *arguments)
    return errno.errorcode[ctypes.get_errno()] if result == -1 else result


def refused(function, *arguments):
    """The error that a call ends with, or None."""
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


def pids():
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def attach(pid):
    return call("ptrace", 16, pid, 0, 0)


def channels(pid):
    """Descriptors of a process that lead to somebody else: pipes, files, and what gVisor takes over from the host."""
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target != "/dev/null" and not target.startswith(("socket:", "anon_inode:")):
                found.append(target)
    except OSError:
        pass
    return found


def spoil(pid):
    """Writes to every descriptor of a process that can be opened, and to its memory; how many there were."""
    try:
        paths = [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        paths = []
    opened = 0
    for path in paths + [f"/proc/{pid}/mem"]:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            opened += 1
            os.write(fd, b"x" * 4096)
        except OSError:
            pass
    return opened


def readable(pid, name):
    """What a file of a process says, or why it does not."""
    try:
        return open(f"/proc/{pid}/{name}", "rb").read()
    except OSError as error:
        return errno.errorcode[error.errno]


def namespaces():
    """Every way into another namespace, and what came of it, each in a process of its own."""
    null = os.open("/dev/null", os.O_RDONLY)
    # `clone3` takes a structure: flags, then seven fields of zeros.
    new_user = (ctypes.c_uint64 * 8)(NEW_USER, 0, 0, 0, signal.SIGCHLD)
    tries = [
        ("unshare user", "unshare", NEW_USER),
        ("unshare mount", "unshare", NEW_MOUNT),
        ("unshare pid", "unshare", NEW_PID),
        ("clone user", "clone", NEW_USER | signal.SIGCHLD, 0, 0, 0, 0),
        ("clone pid", "clone", NEW_PID | signal.SIGCHLD, 0, 0, 0, 0),
        ("setns", "setns", null, 0),
        ("clone3", "clone3", ctypes.byref(new_user), 64),
        ("mount", "mount", b"none", b"/tmp", b"tmpfs", 0, 0),
        ("umount", "umount2", b"/proc", 2),
    ]
    for name, *arguments in tries:
        result = call(*arguments)
        if result == 0 and arguments[0].startswith("clone"):
            os._exit(0)
        yield name, result


def bounds(pid):
    """Whether a process may have no more processes than this one, or who keeps us from knowing."""
    try:
        return resource.prlimit(pid, resource.RLIMIT_NPROC) == resource.getrlimit(resource.RLIMIT_NPROC)
    except PermissionError:
        return "refused"


def working():
    """What must still work."""
    done = []
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    done.append("process")
    thread = threading.Thread(target=lambda: done.append("thread"))
    thread.start()
    thread.join()
    return done


def fill():
    """Starts processes until no more can be; how many there were, and why not. Ends them."""
    children = []

    def more():
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)

    error = None
    while not error and len(children) < 200:
        error = refused(more)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return f"{len(children)} {error}"


def fill_with_threads():
    """Starts threads until no more can be; how many there were."""
    threading.stack_size(64 * 1024)
    done = threading.Event()
    threads = []
    try:
        while len(threads) < 200:
            thread = threading.Thread(target=done.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        pass
    done.set()
    for thread in threads:
        thread.join()
    return len(threads)


def hold(path):
    """Takes a lock, or fails at once where somebody else holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(fd)


def share():
    """Makes a System V segment; whether that is possible at all is the runtime's."""
    return libc.shmget(0x6A6172, ctypes.c_size_t(4096), 0o1600) != -1


def shared():
    """Whether it is there."""
    return libc.shmget(0x6A6172, ctypes.c_size_t(4096), 0o600) != -1
