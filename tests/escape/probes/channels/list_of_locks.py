# Tries: tell another sandbox something by the list of locks
# Idea: isolate's /proc/locks
# Docker: breached
# runc: breached, the kernel lists locks of open files of the whole machine; a file's inode and a range of bytes, no name and no content
# gVisor: held
file = open("/dev/shm/locked", "w+")
lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0x6a617262, 42, 0)
fcntl.fcntl(file, 37, lock)
ready()
#--- meanwhile, in another container
for line in read("/proc/locks").decode().splitlines():
    if str(0x6a617262) in line: breached(line)
