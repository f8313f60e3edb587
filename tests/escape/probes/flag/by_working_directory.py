# Tries: leave the container by the working directory and descriptors that it was started with
# Idea: CVE-2024-21626 (Leaky Vessels); CVE-2025-52881
# Docker: held, its runc is mended, or nobody asked for a working directory below /proc
# runc: held
# gVisor: held
here = os.getcwd()
if not here.startswith("/"): breached(here)
for fd in os.listdir("/proc/self/fd"):
    try: to = os.readlink(f"/proc/self/fd/{fd}")
    except OSError: continue
    if to.startswith("/") and os.path.isdir(to) and not to.startswith("/proc/"): breached(f"{fd} is {to}")
    if "(unreachable)" in to or "cgroup" in to: breached(f"{fd} is {to}")
os.chdir("/proc/self/cwd/../../../../../..")
if os.getcwd() != "/": breached(os.getcwd())
