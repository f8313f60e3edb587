# Tries: bpf
# Idea: HARDENING's list; CVE-2021-3490 and many others
# Docker: breached with --cap-add SYS_ADMIN --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
attributes = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1) + bytes(112))
call(321, 280, 0, ctypes.addressof(attributes), 128); breached("a map")
