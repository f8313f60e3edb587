# Tries: tell another sandbox something by a lock on any file that both can open, but namespaces
# Idea: isolate's flock on any shared inode; HARDENING's row of the guest's volume
# Docker: breached with --volume belljar-test-{random}:/shared
# runc: held
# gVisor: held
kept = []
def candidates():
    for folder in ("/.belljar", "/shared"):
        yield folder
        try: yield from (os.path.join(folder, name) for name in os.listdir(folder))
        except OSError: pass
    yield from ("/.belljar/init", "/proc", "/sys", "/proc/version", "/sys/kernel", "/dev/null", "/dev/pts", "/dev/mqueue",
                "/etc/passwd", "/etc/hosts", "/etc", "/usr/bin/python3", "/", "/sys/fs/cgroup", "/dev/shm")
for path in candidates():
    try:
        kept.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: continue
ready(len(kept))
#--- meanwhile, in another container
def candidates():
    for folder in ("/.belljar", "/shared"):
        yield folder
        try: yield from (os.path.join(folder, name) for name in os.listdir(folder))
        except OSError: pass
    yield from ("/.belljar/init", "/proc", "/sys", "/proc/version", "/sys/kernel", "/dev/null", "/dev/pts", "/dev/mqueue",
                "/etc/passwd", "/etc/hosts", "/etc", "/usr/bin/python3", "/", "/sys/fs/cgroup", "/dev/shm")
seen = 0
for path in candidates():
    try: f = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError: continue
    seen += 1
    if refused(fcntl.flock, f, fcntl.LOCK_EX | fcntl.LOCK_NB) == "EAGAIN": breached(path)
    os.close(f)
assert seen > 5
held(f"{seen} files are free")
