# Tries: take all pseudo-terminals of the machine
# Idea: isolate's shared tables; kernel.pty.max counts over all containers
# Docker: breached
# runc: held
# gVisor: held
number = lambda: int(read("/proc/sys/kernel/pty/nr"))
before = number()
taken = [os.openpty() for _ in range(100)]
breached(f"{number() - before} of {read('/proc/sys/kernel/pty/max').decode().strip()}")
