# Tries: a process in a session of its own that ignores signals and outlives its run
# Idea: HARDENING's list; isolate's leftover processes
# Docker: breached
# runc: held
# gVisor: held
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    if os.fork() == 0: os.execvp("sleep", ["sleep", "54321"])
    os._exit(0)
os.wait(); time.sleep(0.1)
#--- then, as another run
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: said = open(f"/proc/{pid}/cmdline").read()
    except OSError: continue
    if said == "sleep\x0054321\0": breached("process " + pid)
