# Tries: the session's keyring
# Idea: isolate's and HARDENING's lists
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
call(250, 219, 0, -3, 1); breached("the session's keyring")
