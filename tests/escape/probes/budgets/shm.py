# Tries: fill /dev/shm
# Idea: HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
try: write("/dev/shm/full", 32 * MIB); breached("32 MiB")
finally: os.unlink("/dev/shm/full")
