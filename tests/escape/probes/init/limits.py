# Tries: change the limits of PID 1: no processor time would end it
# Idea: HARDENING's trap: prlimit passes the check of dumpable
# Docker: breached
# runc: held EPERM
# gVisor: breached, gVisor does not apply the filter; ending PID 1 ends this sandbox
resource.prlimit(1, resource.RLIMIT_CPU); breached("its limit of processor time can be read, and so be set")
