# Tries: signal a process of another container's, or see it
# Idea: isolate's shared uid
# Docker: breached with --pid host
# runc: held
# gVisor: held
libc.prctl(15, b"belljar-told", 0, 0, 0)
ready()
#--- meanwhile, in another container
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: name = read(f"/proc/{pid}/comm").decode().strip()
    except OSError: continue
    if name == "belljar-told" and not refused(os.kill, int(pid), 0): breached(pid)
