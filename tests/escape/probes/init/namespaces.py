# Tries: open the namespaces of PID 1 and enter them
# Idea: HARDENING's list; nsenter
# Docker: breached
# runc: held
# gVisor: breached, PID 1 of what a program sees there is an init of its own, which holds nothing; the guest is out of sight
for name in os.listdir("/proc/self/ns"):
    if not refused(open_to, "/proc/1/ns/" + name, os.O_RDONLY): breached(name)
