# Tries: read the kernel's log
# Idea: deepce's dmesg; CVE-2016-5195-style leaks of addresses
# Docker: breached with --cap-add SYSLOG
# runc: held EPERM
# gVisor: breached, the call gives the few lines that gVisor's own kernel makes up
room = ctypes.create_string_buffer(4096)
call(103, 116, 3, ctypes.addressof(room), 4096)
breached(room.value[:60])
