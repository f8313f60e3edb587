# Tries: a call with the number of an x32 program
# Idea: isolate's foreign calls; HARDENING's trap
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held SIGSYS
# gVisor: held
if not x86: raise OSError(errno.ENOSYS, "")
died = child(lambda: os._exit(0 if libc.syscall(ctypes.c_long(0x40000000 | 39)) > 0 else 1))
if os.WIFSIGNALED(died): held(signal.Signals(os.WTERMSIG(died)).name)
if died == 0: breached("getpid answered")
raise OSError(errno.ENOSYS, "")
