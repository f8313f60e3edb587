# Tries: io_uring
# Idea: isolate's and HARDENING's lists; CVE-2022-29582 and many others
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
room = ctypes.create_string_buffer(120)
call(425, 425, 1, ctypes.addressof(room)); breached("a ring")
