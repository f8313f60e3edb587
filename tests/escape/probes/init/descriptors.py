# Tries: open the descriptors, program, root and working directory of PID 1
# Idea: CVE-2019-5736, CVE-2024-21626; HARDENING's list
# Docker: breached
# runc: held
# gVisor: breached, PID 1 of what a program sees there is an init of its own, which holds nothing; the guest is out of sight
if not refused(os.listdir, "/proc/1/fd"): breached("fd")
for name in ("exe", "root", "cwd"):
    if not refused(os.readlink, "/proc/1/" + name): breached(name)
for fd in (0, 1, 2, 3):
    if not refused(open_to, f"/proc/1/fd/{fd}", os.O_WRONLY): breached(f"fd/{fd}")
