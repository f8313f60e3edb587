# Tries: perf_event_open
# Idea: HARDENING's list; CVE-2013-2094; side channels by counters
# Docker: breached, or absent, with --cap-add SYS_ADMIN --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
attributes = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 112, 1, 0, 0, 0, 1 << 5 | 1 << 6) + bytes(64))
call(298, 241, ctypes.addressof(attributes), 0, -1, -1, 0); breached("opened")
