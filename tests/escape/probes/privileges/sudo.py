# Tries: find a program that gives root for nothing
# Idea: deepce's sudo and CVE-2021-3156
# Docker: held, the image has none
# runc: held
# gVisor: held
for name in ("sudo", "doas", "pkexec", "docker", "nsenter-root"):
    if shutil.which(name): breached(name)
