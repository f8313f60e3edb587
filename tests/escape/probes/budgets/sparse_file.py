# Tries: a sparse file larger than the workspace
# Idea: HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
try: os.truncate(os.open("/workspace/sparse", os.O_CREAT | os.O_RDWR), 257 * MIB); breached("257 MiB")
finally: os.unlink("/workspace/sparse")
