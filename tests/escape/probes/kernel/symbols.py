# Tries: learn the kernel's addresses from kallsyms, modules, vmallocinfo, iomem and timers
# Idea: deepce; SandboxEscapeBench's kernel level; every exploit's first step
# Docker: breached with --cap-add SYSLOG
# runc: held
# gVisor: held
def addresses(path):
    try: text = read(path).decode(errors="replace")
    except OSError: return None
    found = re.search(r"\b(0x)?ffff[0-9a-f]{12}\b", text)
    return found and found[0]
for path in ("/proc/kallsyms", "/proc/modules", "/proc/vmallocinfo", "/proc/timer_list", "/proc/sched_debug",
             "/proc/iomem", "/sys/kernel/notes", "/proc/self/stack", "/proc/self/wchan", "/proc/1/stack"):
    if addresses(path): breached(path + " " + addresses(path))
