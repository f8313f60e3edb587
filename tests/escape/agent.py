"""Runs probes. What they are comes as lines of JSON on standard input; a line is printed for each verdict.

`{"run": program}` runs one in a process of its own. `{"hold": program}` starts one that takes something, says so by
`ready()`, and keeps it until `{"release": 1}` or the end. The first line holds the `facts` that probes may ask for.

A refusal is an OSError: the probe held. Any other exception is a mistake of the probe and leaves no verdict.
"""
import array, contextlib, ctypes, errno, fcntl, glob, json, mmap, os, re, resource, select, shutil, signal, socket, stat
import struct, subprocess, sys, threading, time, traceback

MIB = 1 << 20
SECONDS = 60
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"


def say(*words):
    os.write(1, (" ".join(" ".join(map(str, words)).split())[:200] + "\n").encode())


def breached(evidence):
    say("BREACHED", evidence)
    os._exit(0)


def held(evidence):
    say("HELD", evidence)
    os._exit(0)


def ready(evidence=""):
    """The end of a program that took something: keeps it until it is ended."""
    say("READY", evidence)
    signal.alarm(0)
    while True:
        signal.pause()


def refused(act, *args, **kwargs):
    """The name of the error; None where it worked."""
    try:
        act(*args, **kwargs)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))


def call(x86_number, arm_number, *args):
    """A system call by its number; what it returned."""
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    got = libc.syscall(ctypes.c_long(x86_number if x86 else arm_number), *args)
    if got == -1:
        raise OSError(ctypes.get_errno(), "")
    return got


def checked(got):
    """The same for a function of the C library."""
    if got == -1:
        raise OSError(ctypes.get_errno(), "")
    return got


def every(*acts):
    """Each must be refused, and by the same error, which is raised. An act is a name, a function and its arguments."""
    errors = {}
    for name, act, *args in acts:
        error = refused(act, *args)
        if not error: breached(name)
        errors.setdefault(error, name)
    if len(errors) > 1: held(", ".join(f"{error} for {name}" for error, name in errors.items()))
    raise OSError(getattr(errno, next(iter(errors)), 0), "")


def open_to(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))


def connect(family, kind, address):
    """The name of the error of connecting, within half a second; None where it worked. Sends no data."""
    with socket.socket(family, kind) as s:
        s.settimeout(0.5)
        return refused(s.connect, address)


def write(path, size):
    """A file full of ones."""
    with open(path, "wb", buffering=0) as f:
        for _ in range(size // MIB):
            if f.write(b"\1" * MIB) != MIB:
                raise OSError(errno.ENOSPC, "")


def read(path, size=1 << 20):
    with open(path, "rb") as f:
        return f.read(size)


def status(field, pid="self"):
    return re.search(rf"^{field}:\s*(.*)$", open(f"/proc/{pid}/status").read(), re.M)[1]


def child(act):
    """The status that a process ends with which does nothing but this; it ends with 0 where the act returns."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try: act()
        except OSError as e: os._exit(e.errno)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def in_child(act):
    """The same act, tried where its success changes nothing here."""
    status = child(act)
    if status: raise OSError(os.waitstatus_to_exitcode(status), "")


def machine_code(code):
    """Runs bytes of machine code as a function without arguments."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def attempt(program):
    """What the process of a probe does."""
    try:
        exec(compile(program, "probe", "exec"), globals())
        say("HELD")
    except OSError as e:
        say("HELD", errno.errorcode.get(e.errno, e))
    except BaseException:
        say("no verdict:", traceback.format_exc()[-180:])


def start(program):
    mine, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.closerange(3, 64)
        signal.alarm(SECONDS)
        attempt(program)
        os._exit(0)
    os.close(theirs)
    return pid, mine


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]: pass


def end(pid, output):
    with contextlib.suppress(ProcessLookupError): os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError): os.waitpid(pid, 0)
    os.close(output)
    reap()


def said(pid, output):
    """The verdict of a process that has ended, whoever else still holds its output."""
    status = os.waitpid(pid, 0)[1]
    os.set_blocking(output, False)
    try: text = os.read(output, 1 << 16).decode(errors="replace")
    except BlockingIOError: text = ""
    verdicts = [line for line in text.splitlines() if line.startswith(("HELD", "BREACHED", "no verdict"))]
    return verdicts[-1] if verdicts else f"no verdict: ended with status {status}: {' '.join(text.split())[:200]}"


def main():
    global facts
    # As PID 1 of a plain container it must not mind what probes send it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    facts = json.loads(sys.stdin.readline())
    holder = None
    for line in sys.stdin:
        ask = json.loads(line)
        if "run" in ask:
            pid, output = start(ask["run"])
            print(said(pid, output), flush=True)
            end(pid, output)
        elif "hold" in ask:
            holder = start(ask["hold"])
            print(os.read(holder[1], 1 << 16).decode().splitlines()[0], flush=True)
        else:
            end(*holder)
            holder = None
            print("RELEASED", flush=True)
    # Whoever holds is ended from outside.
    while holder: signal.pause()


main()
