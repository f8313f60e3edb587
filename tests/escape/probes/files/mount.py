# Tries: mount a file system
# Idea: CDK mount-cgroup, mount-procfs, mount-disk
# Docker: breached with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined
# runc: held EPERM
# gVisor: held
os.makedirs("/tmp/mount", exist_ok=True)
for kind in (b"tmpfs", b"proc", b"sysfs", b"cgroup", b"cgroup2", b"devpts", b"overlay"):
    if libc.mount(b"none", b"/tmp/mount", kind, 0, None) == 0: breached(kind.decode())
    error = ctypes.get_errno()
raise OSError(error, "")
