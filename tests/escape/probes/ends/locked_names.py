# Tries: leave mounts, listeners or names behind that the next run finds
# Idea: isolate's leftover objects
# Docker: breached
# runc: held
# gVisor: held
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    tcp = socket.create_server(("127.0.0.1", 4321))
    name = socket.socket(socket.AF_UNIX); name.bind("\0belljar-probe"); name.listen()
    time.sleep(20); os._exit(0)
time.sleep(0.2)
#--- then, as another run
if not connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 4321)): breached("127.0.0.1:4321")
if not connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0belljar-probe"): breached("an abstract name")
