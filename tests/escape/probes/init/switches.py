# Tries: write to the files of PID 1: its OOM score, its filters, its name
# Idea: deepce's writable /proc
# Docker: breached
# runc: held
# gVisor: breached, PID 1 of what a program sees there is an init of its own, which holds nothing; the guest is out of sight
for name in ("oom_score_adj", "oom_adj", "clear_refs", "coredump_filter", "comm", "sched", "autogroup",
             "uid_map", "gid_map", "setgroups", "projid_map"):
    if not refused(open_to, "/proc/1/" + name, os.O_WRONLY): breached(name)
# Anybody may open this one, and few may write to it.
def slack():
    with open("/proc/1/timerslack_ns", "w", buffering=1) as f: f.write("50000\n")
if not refused(slack): breached("timerslack_ns")
