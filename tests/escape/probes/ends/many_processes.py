# Tries: outrun the end of the run by processes that start others all the time
# Idea: isolate's leftover processes; fork bombs
# Docker: breached
# runc: held
# gVisor: held
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        libc.prctl(15, b"outrunner", 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        stop = time.monotonic() + 5
        while time.monotonic() < stop:
            try: pid = os.fork()
            except OSError: continue
            if pid: os._exit(0)
            time.sleep(0.001)
        os._exit(0)
time.sleep(0.1)
#--- then, as another run
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: name = open(f"/proc/{pid}/comm").read().strip()
    except OSError: continue
    if name == "outrunner": breached("process " + pid)
