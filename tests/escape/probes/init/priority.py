# Tries: make PID 1 slow by its nice value, its scheduling class and its processors
# Idea: isolate's shared uid
# Docker: breached
# runc: breached, the kernel lets processes of one uid do so; the server's own deadline ends such a run from outside
# gVisor: breached, PID 1 of what a program sees there is an init of its own, and slow by this run alone
if not refused(os.setpriority, os.PRIO_PROCESS, 1, os.getpriority(os.PRIO_PROCESS, 1)): breached("its nice value can be set")
