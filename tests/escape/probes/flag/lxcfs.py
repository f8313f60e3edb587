# Tries: find lxcfs or a cgroup of the host that is mounted writable
# Idea: CDK lxcfs-rw and lxcfs-rw-cgroup
# Docker: breached with --volume /sys/fs/cgroup:/var/lib/lxcfs/cgroup
# runc: held
# gVisor: breached, the control groups are of gVisor's own kernel, and their files are root's, see kernel/control_groups
for line in read("/proc/self/mountinfo").decode().splitlines():
    fields = line.split()
    kind = fields[fields.index("-") + 1]
    if "lxcfs" in line or kind.startswith("cgroup") and "rw" in fields[5].split(","): breached(line)
