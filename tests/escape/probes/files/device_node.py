# Tries: make a device node for memory or a disk
# Idea: CDK mount-disk and rewrite-cgroup-devices
# Docker: breached
# runc: held
# gVisor: breached, gVisor makes the node; its kernel has no such device to put behind it
for kind, device in ((stat.S_IFCHR, (1, 1)), (stat.S_IFBLK, (8, 0))):
    for folder in ("/tmp", "/workspace", "/dev/shm"):
        if not refused(os.mknod, folder + "/device", kind | 0o600, os.makedev(*device)): breached(folder)
