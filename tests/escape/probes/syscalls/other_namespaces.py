# Tries: mount, network, pid, IPC, UTS, time and control group namespaces
# Idea: HARDENING's list; CVE-2022-0492
# Docker: breached with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined
# runc: held EPERM
# gVisor: held EPERM
flags = {"mnt": 0x20000, "net": 0x40000000, "pid": 0x20000000, "ipc": 0x08000000, "uts": 0x04000000, "time": 0x80, "cgroup": 0x02000000}
every(*((name, call, 272, 97, flag) for name, flag in flags.items()))
