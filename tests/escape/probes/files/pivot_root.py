# Tries: change the root by pivot_root
# Idea: HARDENING's list; runc's own step, taken by a program
# Docker: held, it grants no CAP_SYS_ADMIN
# runc: held EPERM
# gVisor: held
for folder in ("old", "old/put"): os.makedirs("/tmp/" + folder, exist_ok=True)
call(155, 41, ctypes.c_char_p(b"/tmp/old"), ctypes.c_char_p(b"/tmp/old/put")); breached("another root")
