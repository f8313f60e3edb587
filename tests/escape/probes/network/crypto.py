# Tries: AF_ALG, the kernel's ciphers
# Idea: HARDENING's list; CVE-2026-31431's kin
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
socket.socket(38, socket.SOCK_SEQPACKET); breached("opened")
