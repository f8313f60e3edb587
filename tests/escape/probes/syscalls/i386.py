# Tries: a call by the door of 32-bit programs, which many filters do not watch
# Idea: isolate's i386 calls; HARDENING's trap
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held SIGSYS
# gVisor: held
if not x86: raise OSError(errno.ENOSYS, "")
# mov eax, 20 (getpid); int 0x80; ret
died = child(lambda: os._exit(0 if machine_code(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3") > 0 else 1))
if os.WIFSIGNALED(died): held(signal.Signals(os.WTERMSIG(died)).name)
if died == 0: breached("getpid answered")
raise OSError(errno.ENOSYS, "")
