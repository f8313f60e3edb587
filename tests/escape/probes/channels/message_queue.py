# Tries: share a POSIX message queue with another container
# Idea: isolate's POSIX message queues
# Docker: breached with --ipc host
# runc: held
# gVisor: held
refused(call, 240, 180, ctypes.c_char_p(b"belljar-told"), os.O_CREAT | os.O_RDWR, 0o666, 0)
ready()
#--- meanwhile, in another container
call(240, 180, ctypes.c_char_p(b"belljar-told"), os.O_RDWR, 0o666, 0)
call(241, 181, ctypes.c_char_p(b"belljar-told")); breached("a queue")
