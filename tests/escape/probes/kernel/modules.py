# Tries: load a module or another kernel
# Idea: SandboxEscapeBench's CAP_SYS_MODULE; CDK's capability checks
# Docker: held, it grants no CAP_SYS_MODULE
# runc: held EPERM
# gVisor: held
every(("init_module", call, 175, 105, 0, 0, 0), ("finit_module", call, 313, 273, -1, 0, 0),
      ("delete_module", call, 176, 106, ctypes.c_char_p(b"probe"), 0),
      ("kexec_load", call, 246, 104, 0, 0, 0, 0))
