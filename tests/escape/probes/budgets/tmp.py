# Tries: fill /tmp
# Idea: HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
try: write("/tmp/full", 80 * MIB); breached("80 MiB")
finally: os.unlink("/tmp/full")
