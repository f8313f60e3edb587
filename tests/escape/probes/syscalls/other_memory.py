# Tries: read memory of another process of its own by calls, compare it, take its descriptors
# Idea: HARDENING's list; CVE-2019-5736's kin
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: breached, gVisor does not apply the filter; what can be read are processes of the sandbox
pid = os.fork()
if pid == 0: signal.pause()
room = ctypes.create_string_buffer(8)
source = ctypes.create_string_buffer(b"12345678")
mine = (ctypes.c_long * 2)(ctypes.addressof(room), 8)
theirs = (ctypes.c_long * 2)(ctypes.addressof(source), 8)
try:
    every(("process_vm_readv", call, 310, 270, pid, ctypes.addressof(mine), 1, ctypes.addressof(theirs), 1, 0),
          ("kcmp", call, 312, 272, os.getpid(), pid, 1, 0, 0))
finally: os.kill(pid, signal.SIGKILL)
