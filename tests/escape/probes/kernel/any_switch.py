# Tries: find any file of /proc or /sys outside processes that opens for writing
# Idea: deepce's writable /proc and /sys; CDK's procfs exploits
# Docker: breached
# runc: held
# gVisor: held
for top in ("/proc", "/sys"):
    for folder, below, names in os.walk(top):
        # Whoever asks is told of the machine's pressure: a side channel, as told/load, and no switch.
        if folder == "/proc/pressure": continue
        if folder == "/proc": below[:] = [name for name in below if not name.isdigit() and "self" not in name]
        for name in names:
            path = os.path.join(folder, name)
            # What is masked is /dev/null.
            if not os.path.isfile(path): continue
            if os.access(path, os.W_OK) and not refused(open_to, path, os.O_WRONLY): breached(path)
