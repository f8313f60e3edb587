# Tries: take all bytes that POSIX message queues of its uid may have
# Idea: HARDENING's row of distinct uids; RLIMIT_MSGQUEUE
# Docker: breached with --user 61234:61234
# runc: held
# gVisor: held
taken = 0
def queue(number):
    sizes = (ctypes.c_long * 8)(0, 10, 8192, 0, 0, 0, 0, 0)
    return call(240, 180, ctypes.c_char_p(f"probe{number}".encode()), os.O_CREAT | os.O_RDWR, 0o600, ctypes.addressof(sizes))
while taken < 1000 and not refused(queue, taken): taken += 1
ready(taken)
#--- meanwhile, in another container and on the host
sizes = (ctypes.c_long * 8)(0, 10, 8192, 0, 0, 0, 0, 0)
name = b"belljar-probe-one"
error = refused(call, 240, 180, ctypes.c_char_p(name), os.O_CREAT | os.O_RDWR, 0o600, ctypes.addressof(sizes))
call(241, 181, ctypes.c_char_p(name)) if not error else None
# In a sandbox there are none to take.
if error not in (None, "EPERM", "ENOSYS"): breached(error)
held(error or "one more")
