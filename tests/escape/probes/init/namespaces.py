# Tries: open the namespaces of PID 1 and enter them
# Idea: HARDENING's list; nsenter
# Docker: breached
# runc: held
# gVisor: breached, gVisor lets processes of one uid read each other
for name in os.listdir("/proc/self/ns"):
    if not refused(open_to, "/proc/1/ns/" + name, os.O_RDONLY): breached(name)
