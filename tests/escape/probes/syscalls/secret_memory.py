# Tries: memory that the kernel itself cannot see
# Idea: HARDENING's list
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
call(447, 447, 0); breached("opened")
