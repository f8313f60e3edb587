# Tries: take all pages that pipes of its uid may have
# Idea: HARDENING's row of distinct uids; fs.pipe-user-pages-soft
# Docker: breached with --user 61234:61234
# runc: held
# gVisor: held
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
bound = 1 << 20
pipes = []
try:
    for _ in range(1200):
        pipes.append(os.pipe())
        refused(fcntl.fcntl, pipes[-1][1], 1031, bound)
except OSError: pass
ready(len(pipes))
#--- meanwhile, in another container and on the host
size = lambda end: fcntl.fcntl(end, 1032)
first, second = os.pipe(), os.pipe()
if size(first[1]) < 65536: breached(f"a pipe of {size(first[1])} bytes")
error = refused(fcntl.fcntl, second[1], 1031, 256 * 1024)
if error: breached(f"{error} for a larger pipe")
held(f"pipes of {size(first[1])} and {size(second[1])} bytes")
