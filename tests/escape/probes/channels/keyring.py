# Tries: tell another container something by a keyring of the user
# Idea: isolate's keyrings
# Docker: breached, or absent, with --user 61234:61234 --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
refused(call, 248, 217, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"belljar-told"), ctypes.c_char_p(b"x"), 1, -4)
ready()
#--- meanwhile, in another container and on the host
call(250, 219, 10, -4, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"belljar-told"), 0); breached("a key")
