# Tries: find anything of the host's that is mounted, but the three files that Docker makes for a container
# Idea: deepce's mounted host folders; amicontained; CIS 5.5
# Docker: breached with --volume /usr:/host-usr:ro
# runc: held
# gVisor: held
known = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/.belljar"}
virtual = {"proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay", "devtmpfs"}
for line in read("/proc/self/mountinfo").decode().splitlines():
    fields = line.split()
    at, kind = fields[4], fields[fields.index("-") + 1]
    if at != "/" and at not in known and kind not in virtual: breached(f"{at} {kind}")
