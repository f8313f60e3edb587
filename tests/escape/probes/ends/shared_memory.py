# Tries: System V memory that outlives its run, past /dev/shm's bound
# Idea: isolate's System V objects
# Docker: breached
# runc: held
# gVisor: held
libc.shmget(0x6a6172, ctypes.c_size_t(32 * MIB), 0o1600)
#--- then, as another run
if libc.shmget(0x6a6172, ctypes.c_size_t(32 * MIB), 0o600) != -1: breached("32 MiB")
