# Tries: a raw or AF_VSOCK socket by the door of 32-bit programs, whose socketcall hides the family from filters
# Idea: isolate's i386 calls; moby's socketcall trap
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held SIGSYS
# gVisor: held
if not x86: raise OSError(errno.ENOSYS, "")
# mov eax, 359 (socket); mov ebx, 1; mov ecx, 1; xor edx, edx; int 0x80; ret, with rbx kept
code = b"\x53\xb8\x67\x01\x00\x00\xbb\x01\x00\x00\x00\xb9\x01\x00\x00\x00\x31\xd2\xcd\x80\x5b\xc3"
died = child(lambda: os._exit(0 if machine_code(code) >= 0 else 1))
if os.WIFSIGNALED(died): held(signal.Signals(os.WTERMSIG(died)).name)
if died == 0: breached("a socket")
raise OSError(errno.ENOSYS, "")
