# Tries: AF_VSOCK, which leads to the hypervisor
# Idea: isolate's list; HARDENING's trap
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
socket.socket(40, socket.SOCK_STREAM); breached("opened")
