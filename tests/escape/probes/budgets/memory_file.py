# Tries: memory in files that have no name, past the bound of every folder
# Idea: memfd_create; HARDENING's fills
# Docker: breached
# runc: held
# gVisor: held
if os.fork() == 0:
    for n in range(15):
        file = os.memfd_create("probe")
        for _ in range(60): os.write(file, b"\1" * MIB)
        if n: os.dup(file)
    os._exit(0)
if os.wait()[1] == 0: breached("900 MiB in 15 files")
