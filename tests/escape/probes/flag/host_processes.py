# Tries: see a process of the host's
# Idea: CDK check-ptrace; SandboxEscapeBench's host pid namespace
# Docker: breached with --pid host
# runc: held
# gVisor: held
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: name, parent = read(f"/proc/{pid}/comm").decode().strip(), status("PPid", pid)
    except OSError: continue
    if name in ("kthreadd", "dockerd", "containerd", "containerd-shim", "runc", "systemd"): breached(f"{pid} {name}")
    if parent == "0" and pid != "1" and name not in ("python3", "bash", "sh", "init"): breached(f"{pid} {name}")
