# Tries: a POSIX message queue that outlives its run
# Idea: isolate's POSIX message queues
# Docker: breached
# runc: held
# gVisor: held
call(240, 180, ctypes.c_char_p(b"probe"), os.O_CREAT | os.O_RDWR, 0o600, 0)
#--- then, as another run
call(240, 180, ctypes.c_char_p(b"probe"), os.O_RDWR, 0o600, 0); breached("a queue")
