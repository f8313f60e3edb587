# Tries: use up the processes that its uid may have
# Idea: HARDENING's row of distinct uids; RLIMIT_NPROC
# Docker: breached with --user 61234:61234
# runc: held
# gVisor: held
taken = 0
def spawn():
    pid = os.fork()
    if pid == 0:
        while True: signal.pause()
while taken < 100 and not refused(spawn): taken += 1
ready(taken)
#--- meanwhile, in another container and on the host
resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
def spawn():
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
error = refused(spawn)
if error: breached(f"{error} below a bound of 60")
held("one more")
