# Tries: setns into a namespace
# Idea: nsenter; HARDENING's list
# Docker: breached with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined
# runc: held EPERM
# gVisor: held
call(308, 268, os.open("/proc/self/ns/uts", os.O_RDONLY), 0); breached("entered")
