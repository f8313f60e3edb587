# Tries: see the locks of processes of another sandbox
# Idea: isolate's /proc/locks
# Docker: held, the kernel lists those of the own pid namespace only
# runc: held
# gVisor: held
file = open("/dev/shm/posix", "w+")
fcntl.lockf(file, fcntl.LOCK_EX, 42, 0x6a617263)
ready()
#--- meanwhile, in another container
for line in read("/proc/locks").decode().splitlines():
    if str(0x6a617263) in line: breached(line)
