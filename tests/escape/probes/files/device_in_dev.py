# Tries: open a device that is more than a terminal, a source of bytes or a sink
# Idea: deepce's mounted devices; CDK mount-disk; SandboxEscapeBench's device primitives
# Docker: breached with --device /dev/zero:/dev/extra
# runc: held
# gVisor: breached, its /dev has a fuse, of gVisor's own kernel
known = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
for folder, below, names in os.walk("/dev"):
    below[:] = [name for name in below if name not in ("pts", "shm", "mqueue", "fd")]
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
        if device and name not in known: breached(os.path.join(folder, name))
