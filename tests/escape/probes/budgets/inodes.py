# Tries: fill /tmp with empty files
# Idea: HARDENING's inode fill
# Docker: breached
# runc: held
# gVisor: breached, it ignores `nr_inodes`; the files are memory of the sandbox, and count against its limit
os.mkdir("/tmp/many")
try:
    for n in range(20_000): os.mknod(f"/tmp/many/{n}")
    breached("20,000 files")
finally: shutil.rmtree("/tmp/many")
