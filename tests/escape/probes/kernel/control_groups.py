# Tries: write to a control group: release_agent, devices.allow, memory.limit, cgroup.procs
# Idea: CDK mount-cgroup and rewrite-cgroup-devices; CVE-2022-0492
# Docker: breached with --volume /sys/fs/cgroup:/sys/fs/cgroup
# runc: held
# gVisor: held
seen = 0
for folder, _, files in os.walk("/sys/fs/cgroup"):
    for name in files:
        seen += 1
        if not refused(os.open, os.path.join(folder, name), os.O_WRONLY): breached(folder + "/" + name)
assert seen, "no control groups to be seen"
