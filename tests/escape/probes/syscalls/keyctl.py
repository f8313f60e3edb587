# Tries: the session's keyring
# Idea: isolate's and HARDENING's lists
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: breached, it is of gVisor's own kernel, which does not apply the filter; sandboxes share none
call(250, 219, 0, -3, 1); breached("the session's keyring")
