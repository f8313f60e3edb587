# Tries: take so many pseudo-terminals that another container gets none
# Idea: kernel.pty.max counts over all containers
# Docker: breached
# runc: held
# gVisor: held
kept = []
def take(): kept.append(os.openpty())
while len(kept) < 100 and not refused(take): pass
ready(len(kept))
#--- meanwhile, in another container
nr = int(read("/proc/sys/kernel/pty/nr"))
mine = len([name for name in os.listdir("/dev/pts") if name.isdigit()])
if nr - mine >= 100: breached(f"{nr} of {read('/proc/sys/kernel/pty/max').decode().strip()} are in use, {mine} of them here")
held(f"{nr} in use")
