# Tries: userfaultfd
# Idea: HARDENING's list; the usual way to win races in the kernel
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
call(323, 282, 1); breached("opened")
