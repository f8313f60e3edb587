# Tries: read the environment, memory and state of PID 1
# Idea: CDK's and deepce's search for credentials; HARDENING's list
# Docker: breached
# runc: held
# gVisor: breached, PID 1 of what a program sees there is an init of its own, which holds nothing; the guest is out of sight
for name in ("environ", "mem", "maps", "auxv", "pagemap", "syscall", "smaps", "map_files"):
    if not refused(os.listdir if name == "map_files" else open, "/proc/1/" + name): breached(name)
