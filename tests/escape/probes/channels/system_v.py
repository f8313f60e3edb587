# Tries: share System V memory with another container
# Idea: isolate's System V objects
# Docker: breached with --ipc host
# runc: held
# gVisor: held
got = libc.shmget(0x6a617264, ctypes.c_size_t(4096), 0o1666)
ready()
#--- meanwhile, in another container
got = checked(libc.shmget(0x6a617264, ctypes.c_size_t(4096), 0o666))
libc.shmctl(got, 0, None)
breached("4096 bytes")
