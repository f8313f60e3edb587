# Tries: fill the workspace
# Idea: HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
try:
    for n in range(5): write(f"/workspace/full{n}", 64 * MIB)
    breached("320 MiB")
finally:
    for n in range(5): refused(os.unlink, f"/workspace/full{n}")
