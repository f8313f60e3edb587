# Tries: reach the machine's ports, reboot it, switch its swap, its accounting or its quota
# Idea: CAP_SYS_RAWIO, CAP_SYS_BOOT and CAP_SYS_PACCT in amicontained's list
# Docker: held, it grants none of the capabilities
# runc: held EPERM
# gVisor: held
every(*([("iopl", call, 172, 0, 3), ("ioperm", call, 173, 0, 0x80, 1, 1)] if x86 else []),
      ("reboot", call, 169, 142, 0, 0, 0, 0), ("swapoff", call, 168, 225, ctypes.c_char_p(b"/probe")),
      ("acct", call, 163, 89, ctypes.c_char_p(b"/tmp/probe")), ("quotactl", call, 179, 60, -1, 0, 0, 0),
      ("sethostname", call, 170, 161, ctypes.c_char_p(b"probe"), 5))
