# Tries: more memory than the limit
# Idea: HARDENING's memory bomb
# Docker: breached
# runc: held
# gVisor: lost, an OOM takes the whole sandbox
if os.fork() == 0:
    full = b"\1" * (900 * MIB); os._exit(0)
if os.wait()[1] == 0: breached("900 MiB")
