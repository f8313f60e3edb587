# Tries: a real-time or deadline priority, which would take a processor from everybody
# Idea: isolate's list; CAP_SYS_NICE in amicontained's
# Docker: breached with --cap-add SYS_NICE
# runc: held
# gVisor: breached, the priority is for gVisor's own kernel, and the host's does not hear of it
def scheduled():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); breached("SCHED_FIFO")
def nice(): os.setpriority(os.PRIO_PROCESS, 0, -10); breached("nice -10")
refused(scheduled); nice()
