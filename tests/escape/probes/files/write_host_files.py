# Tries: write to the files of the host's disk that Docker mounts (hosts, hostname, resolv.conf), which know no bound
# Idea: deepce's mounted host files; moby's container files below /var/lib/docker
# Docker: breached
# runc: held
# gVisor: held
for path in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):
    if not refused(open_to, path, os.O_WRONLY | os.O_APPEND): breached(path)
