# Tries: put a filter of its own before its children, with a supervisor that answers for the kernel
# Idea: seccomp's user notification; confusing a set-user-id program
# Docker: breached
# runc: held EPERM
# gVisor: held
libc.prctl(38, 1, 0, 0, 0)
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = Program(1, ctypes.addressof(allow))
call(317, 277, 1, 8, ctypes.addressof(program)); breached("a filter that notifies")
