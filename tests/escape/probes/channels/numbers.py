# Tries: send by a number that the kernel counts over the whole machine and lets anybody write: the last pid, a table's size
# Idea: isolate's /proc/sys/kernel/ns_last_pid; random/uuid, pty/nr, file-nr
# Docker: breached with --security-opt systempaths=unconfined
# runc: held
# gVisor: held
ready()
#--- meanwhile, in another container
for path in ("/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/random/write_wakeup_threshold", "/proc/sys/fs/file-max",
             "/proc/sys/kernel/pty/max", "/proc/sys/vm/drop_caches", "/proc/sys/net/core/somaxconn"):
    if not refused(open_to, path, os.O_WRONLY): breached(path)
