# Tries: System V semaphores that outlive their run
# Idea: isolate's System V objects
# Docker: breached
# runc: held
# gVisor: held
libc.semget(0x6a6172, 10, 0o1600)
#--- then, as another run
if libc.semget(0x6a6172, 10, 0o600) != -1: breached("10 semaphores")
