# Tries: notice by inotify that another sandbox opens a file
# Idea: isolate's shared inodes; inotify on shared files
# Docker: breached with --volume belljar-test-{random}:/shared
# runc: held
# gVisor: held
def touch():
    for path in ("/.belljar/init", "/.belljar", "/shared", "/etc/passwd", "/etc/hosts", "/dev/null", "/proc/version", "/dev/shm"):
        try: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError: pass
        os.path.exists(path + "/x")
signal.setitimer(signal.ITIMER_REAL, 0)
pid = os.fork()
if pid == 0:
    while True: touch(); time.sleep(0.01)
ready()
#--- meanwhile, in another container
instance = checked(libc.inotify_init1(os.O_NONBLOCK))
watched = {}
for path in ("/.belljar/init", "/.belljar", "/shared", "/etc/passwd", "/etc/hosts", "/dev/null", "/proc/version", "/dev/shm"):
    descriptor = libc.inotify_add_watch(instance, path.encode(), 0xfff)
    if descriptor != -1: watched[descriptor] = path
if not select.select([instance], [], [], 0.5)[0]: held(f"nothing at {len(watched)} files")
event = os.read(instance, 4096)
breached(watched[struct.unpack("i", event[:4])[0]])
