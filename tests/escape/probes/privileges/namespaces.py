# Tries: find a namespace that is the host's: pid, network, IPC, UTS, mounts
# Idea: amicontained's namespaces
# Docker: breached with --pid host --network host --ipc host --uts host
# runc: held
# gVisor: held
# The numbers of the machine's own are fixed in the kernel; that of its network is below the first that is given out.
first = {"pid": 4026531836, "ipc": 4026531839, "uts": 4026531838}
for name, number in first.items():
    if os.stat("/proc/self/ns/" + name).st_ino == number: breached(name)
if "docker0" in [name for _, name in socket.if_nameindex()]: breached("net")
