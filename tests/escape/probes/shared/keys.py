# Tries: take all keys that its uid may have
# Idea: isolate's keyrings; kernel.keys.maxkeys
# Docker: breached, or absent, with --user 61234:61234 --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
taken = 0
def add(number):
    call(248, 217, ctypes.c_char_p(b"user"), ctypes.c_char_p(f"belljar-probe-{number}".encode()), ctypes.c_char_p(b"x"), 1, -2)
while taken < 1000 and not refused(add, taken): taken += 1
ready(taken)
#--- meanwhile, in another container and on the host
try: call(248, 217, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"belljar-probe-one"), ctypes.c_char_p(b"x"), 1, -2)
except OSError as e:
    if e.errno == errno.EDQUOT: breached("EDQUOT")
    raise
