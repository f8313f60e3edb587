# Tries: take all epoll watches of its uid
# Idea: fs.epoll.max_user_watches
# Docker: breached with --user 61234:61234 --memory 1g
# runc: held
# gVisor: held
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1024), most))
files, kept = [], []
try:
    while len(files) < 480: files += os.pipe()
except OSError: pass
taken, error, deadline = 0, None, time.monotonic() + 25
while not error and time.monotonic() < deadline:
    try: kept.append(select.epoll())
    except OSError: break
    for file in files:
        try: kept[-1].register(file, select.EPOLLIN); taken += 1
        except OSError as e: error = e; break
ready(taken)
#--- meanwhile, in another container and on the host
waiting = select.epoll()
r, w = os.pipe()
error = refused(waiting.register, r, select.EPOLLIN)
if error: breached(error)
held("one more")
