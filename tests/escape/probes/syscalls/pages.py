# Tries: move pages between nodes, or advise on another process's memory
# Idea: HARDENING's allow-list; CVE-2017-14140
# Docker: breached, or absent, with --cap-add SYS_NICE --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
pages = (ctypes.c_void_p * 1)(); state = (ctypes.c_int * 1)()
call(279, 239, 0, 0, 0, 0, 0, 0); breached("move_pages")
