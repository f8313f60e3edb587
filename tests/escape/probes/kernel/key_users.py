# Tries: learn which users of the machine have keys
# Idea: isolate's keyrings; /proc/key-users
# Docker: breached
# runc: breached, the kernel shows the number of keys of every uid, and Docker does not mask that file
# gVisor: held
lines = read("/proc/key-users").decode().splitlines()
others = [line for line in lines if int(line.split(":")[0]) != os.getuid()]
if others: breached(others[0])
