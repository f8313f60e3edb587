# Tries: set the machine's clock
# Idea: CAP_SYS_TIME in amicontained's list
# Docker: breached with --cap-add SYS_TIME
# runc: held EPERM
# gVisor: held
room = ctypes.create_string_buffer(208)
call(159, 171, ctypes.addressof(room))
# The tick that it has already, so that nothing changes where it is allowed.
adjust_tick = 0x4000
struct.pack_into("I", room, 0, adjust_tick)
call(159, 171, ctypes.addressof(room)); breached("the tick can be set")
