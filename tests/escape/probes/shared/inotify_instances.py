# Tries: take all inotify instances of its uid
# Idea: HARDENING's row of distinct uids; fs.inotify.max_user_instances
# Docker: breached with --user 61234:61234
# runc: held
# gVisor: held
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
taken = 0
while not refused(lambda: checked(libc.inotify_init())): taken += 1
ready(taken)
#--- meanwhile, in another container and on the host
error = refused(lambda: checked(libc.inotify_init()))
if error: breached(error)
held("one more")
