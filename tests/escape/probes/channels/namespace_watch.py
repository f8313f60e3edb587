# Tries: notice by inotify that another sandbox opens a namespace that both share
# Idea: isolate's shared inodes; the user namespace is one
# Docker: held, the kernel tells nothing of such files
# runc: held
# gVisor: held
pid = os.fork()
if pid == 0:
    while True: os.close(os.open("/proc/self/ns/user", os.O_RDONLY)); time.sleep(0.01)
ready()
#--- meanwhile, in another container
instance = checked(libc.inotify_init1(os.O_NONBLOCK))
checked(libc.inotify_add_watch(instance, b"/proc/self/ns/user", 0x20))
if select.select([instance], [], [], 0.5)[0]: breached("an open was seen")
