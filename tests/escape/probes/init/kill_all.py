# Tries: kill everything that may be killed
# Idea: HARDENING's list
# Docker: held, the kernel keeps SIGKILL from the init of a namespace
# runc: held
# gVisor: held
if os.fork() == 0:
    os.kill(-1, signal.SIGKILL)
    os._exit(0)
time.sleep(0.2)
#--- then, as another run
held("another run could follow")
