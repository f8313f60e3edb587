# Tries: tell another container something by a keyring of the user
# Idea: isolate's keyrings
# Docker: breached, or absent, with --user 61234:61234 --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
name = ctypes.c_char_p(facts["reversed"].encode())
set_timeout = 15
try: call(250, 219, set_timeout, call(248, 217, ctypes.c_char_p(b"user"), name, ctypes.c_char_p(b"x"), 1, -4), 60)
except OSError: pass
ready()
#--- meanwhile, in another container and on the host
call(250, 219, 10, -4, ctypes.c_char_p(b"user"), ctypes.c_char_p(facts["reversed"].encode()), 0); breached("a key")
