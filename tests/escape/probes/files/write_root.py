# Tries: write to the image's folders
# Idea: CIS Docker Benchmark 5.12; deepce's writable paths
# Docker: breached
# runc: held
# gVisor: held
for folder in ("/", "/etc", "/usr/bin", "/root", "/var/tmp", "/opt"):
    if not refused(open, folder + "/probe", "w"): breached(folder)
