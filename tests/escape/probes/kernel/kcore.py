# Tries: read the machine's memory by /proc/kcore, or page flags and counts of all of it
# Idea: deepce's readable /proc; amicontained's masked paths
# Docker: breached
# runc: held
# gVisor: held
for path in ("/proc/kcore", "/proc/kpageflags", "/proc/kpagecount", "/proc/kpagecgroup"):
    if not refused(open, path, "rb") and read(path, 8): breached(path)
