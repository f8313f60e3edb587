# Tries: set the machine's clock
# Idea: CAP_SYS_TIME in amicontained's list
# Docker: held, it grants no CAP_SYS_TIME, or the call would set the clock
# runc: held EPERM
# gVisor: held
# The time is not one, so that nothing is set where it is allowed.
bad = (ctypes.c_long * 2)(0, 2_000_000_000)
if libc.clock_settime(0, ctypes.byref(bad)) == 0: breached("the clock")
if ctypes.get_errno() == errno.EINVAL: breached("only the time was wrong")
raise OSError(ctypes.get_errno(), "")
