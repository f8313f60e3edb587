# Tries: tell whether two sandboxes are on one machine
# Idea: isolate's side channels; /proc/sys/kernel/random/boot_id
# Docker: breached
# runc: breached, the kernel shows one number to all; it says nothing else
# gVisor: held
if os.path.exists("/proc/sys/kernel/random/boot_id"): breached(read("/proc/sys/kernel/random/boot_id").decode())
