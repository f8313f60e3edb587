# Tries: calls that programs no longer need and exploits did
# Idea: moby's list of what its filter leaves out: modify_ldt, vmsplice, uselib, ustat, sysfs, lookup_dcookie, nfsservctl
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
r, w = os.pipe()
text = ctypes.create_string_buffer(b"x")
vector = (ctypes.c_long * 2)(ctypes.addressof(text), 1)
room = ctypes.create_string_buffer(64)
every(("vmsplice", call, 278, 75, w, ctypes.addressof(vector), 1, 0),
      *([("modify_ldt", call, 154, 0, 0, ctypes.addressof(room), 64), ("sysfs", call, 139, 0, 3, 0, 0)] if x86 else []))
