# Tries: learn the container's id and paths of the host by mounts and control groups
# Idea: CDK's and deepce's container ids; CVE-2022-0492 needs the upper folder
# Docker: breached
# runc: breached, the kernel shows the sources of mounts: folders of the daemon's, of use only to somebody who can already write there
# gVisor: breached, the path of its control group holds the id
text = read("/proc/self/mountinfo").decode() + read("/proc/self/cgroup").decode()
found = re.search(r"/var/lib/[\w./-]{16,}|[0-9a-f]{64}|/docker/\S+", text)
if found: breached(found[0])
