# Tries: find any folder to write to but the bounded ones
# Idea: deepce's search for writable paths
# Docker: breached
# runc: held
# gVisor: held
ours = {"/proc", "/sys", "/workspace", "/tmp", "/dev/shm", "/dev/mqueue", "/dev/pts"}
for folder, below, _ in os.walk("/"):
    below[:] = [name for name in below if os.path.join(folder, name) not in ours]
    if os.access(folder, os.W_OK): breached(folder)
