# Tries: attach to PID 1, or read and write its memory by calls
# Idea: CDK check-ptrace; HARDENING's list
# Docker: breached
# runc: held EPERM
# gVisor: held
room = ctypes.create_string_buffer(64)
vector = (ctypes.c_long * 2)(ctypes.addressof(room), 64)
remote = (ctypes.c_long * 2)(0x400000, 64)
every(("PTRACE_SEIZE", call, 101, 117, 0x4206, 1, 0, 0),
      ("process_vm_readv", call, 310, 270, 1, ctypes.addressof(vector), 1, ctypes.addressof(remote), 1, 0),
      ("process_vm_writev", call, 311, 271, 1, ctypes.addressof(vector), 1, ctypes.addressof(remote), 1, 0))
