# Tries: change the limits of PID 1: no processor time would end it
# Idea: HARDENING's trap: prlimit passes the check of dumpable
# Docker: breached
# runc: held EPERM
# gVisor: breached, PID 1 of what a program sees there is an init of its own; ending it ends this run
resource.prlimit(1, resource.RLIMIT_CPU); breached("its limit of processor time can be read, and so be set")
