# Tries: learn what the whole machine does, by its load, its memory and its processors
# Idea: isolate's side channels
# Docker: breached
# runc: breached, the kernel's figures are the machine's; a side channel, which nothing here closes
# gVisor: held
total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
load = read("/proc/loadavg").decode().split()
processes = int(load[3].split("/")[1])
if processes > 60: breached(f"{processes} threads on the machine, load {load[0]}")
