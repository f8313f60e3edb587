# Tries: keep memory in files that have no name, past the bound of every folder
# Idea: memfd_create; HARDENING's fills
# Docker: breached
# runc: held
# gVisor: lost, an OOM takes the whole sandbox
full = []
for _ in range(15):
    full.append(os.memfd_create("probe"))
    for _ in range(60): os.write(full[-1], b"\1" * MIB)
open("/dev/shm/memory_file", "w").close()
#--- then, as another run
# Files are not counted by process, so that the kernel may end any; whoever is left tells whether it was all there.
if os.path.exists("/dev/shm/memory_file"): breached("900 MiB in 15 files")
