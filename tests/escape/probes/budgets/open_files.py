# Tries: more open files than the limit
# Idea: isolate's and CIS's limits
# Docker: breached
# runc: held
# gVisor: held
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(2048)]
breached(f"{len(files)} open files")
