# Tries: run a program from /tmp or /dev/shm
# Idea: CIS's noexec for temporary folders
# Docker: breached
# runc: held
# gVisor: held
for folder in ("/tmp", "/dev/shm"):
    shutil.copy("/bin/true", folder + "/true")
    if not refused(subprocess.run, [folder + "/true"]): breached(folder)
