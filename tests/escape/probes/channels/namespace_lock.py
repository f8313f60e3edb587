# Tries: tell another sandbox something by a lock on a namespace that both share
# Idea: isolate's flock on any shared inode; the user namespace is one
# Docker: breached
# runc: breached, the user and time namespaces are the machine's and can be opened by anybody; whoever tells and whoever listens must be in league
# gVisor: held
kept = []
for name in {"user", "time"} & set(os.listdir("/proc/self/ns")):
    kept.append(os.open("/proc/self/ns/" + name, os.O_RDONLY))
    fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
ready()
#--- meanwhile, in another container
for name in {"user", "time"} & set(os.listdir("/proc/self/ns")):
    f = os.open("/proc/self/ns/" + name, os.O_RDONLY)
    if refused(fcntl.flock, f, fcntl.LOCK_EX | fcntl.LOCK_NB): breached(f"the {name} namespace is locked")
