# Tries: tell whether two sandboxes are on one machine
# Idea: isolate's side channels; /proc/sys/kernel/random/boot_id
# Docker: breached
# runc: breached, the kernel shows one number to all; it says nothing else
# gVisor: held
number = read("/proc/sys/kernel/random/boot_id").decode().strip()
if number == facts["boot"]: breached("the machine's " + number)
