# Tries: open the kernel's switches for writing
# Idea: CDK mount-procfs (core_pattern); binfmt_misc, modprobe, uevent_helper, sysrq
# Docker: breached with --security-opt systempaths=unconfined
# runc: held
# gVisor: held
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
             "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/sysrq", "/proc/sys/fs/binfmt_misc/register",
             "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/kexec_crash_size", "/proc/acpi/wakeup"):
    if not refused(open_to, path, os.O_WRONLY): breached(path)
