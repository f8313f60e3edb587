# Tries: a key that outlives its run
# Idea: isolate's keyrings
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
user = -4
call(248, 217, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"belljar-probe"), ctypes.c_char_p(b"x"), 1, user)
#--- then, as another run
found = call(250, 219, 10, -4, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"belljar-probe"), 0)
call(250, 219, 9, found, -4)
breached(f"key {found}")
