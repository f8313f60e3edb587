# Tries: open the kernel's tracing, debugging and security folders
# Idea: CDK's and deepce's /sys checks; tracefs leaks
# Docker: held, it mounts none of them
# runc: held
# gVisor: held
for folder in ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf", "/sys/fs/pstore"):
    try: names = os.listdir(folder)
    except OSError: continue
    if names: breached(f"{folder}/{names[0]}")
