# Tries: use up the memory that its uid may lock
# Idea: HARDENING's list of budgets; RLIMIT_MEMLOCK, which counts by uid for System V memory
# Docker: breached with --user 61234:61234
# runc: held
# gVisor: held
lock = 11
got = libc.shmget(0, ctypes.c_size_t(16 * 4096), 0o1600)
refused(lambda: checked(got)) or refused(lambda: checked(libc.shmctl(got, lock, None)))
ready(got)
#--- meanwhile, in another container and on the host
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
got = checked(libc.shmget(0, ctypes.c_size_t(4096), 0o1600))
error = refused(lambda: checked(libc.shmctl(got, 11, None)))
libc.shmctl(got, 0, None)
if error: breached(error)
held("one more")
