# Tries: leave a file where another container finds it
# Idea: isolate's shared folders
# Docker: breached with --volume belljar-test-{random}:/shared
# runc: held
# gVisor: held
for folder in ("/shared", "/.belljar", "/tmp", "/dev/shm", "/workspace", "/dev/mqueue", "/var/tmp", "/run"):
    refused(open, folder + "/belljar-told", "w")
ready()
#--- meanwhile, in another container
for folder in ("/shared", "/.belljar", "/tmp", "/dev/shm", "/workspace", "/dev/mqueue", "/var/tmp", "/run"):
    if os.path.exists(folder + "/belljar-told"): breached(folder)
