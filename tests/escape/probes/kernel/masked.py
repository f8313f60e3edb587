# Tries: read what Docker masks: keys, timers, ACPI, SCSI, latencies, firmware
# Idea: amicontained; moby's masked paths and their advisories
# Docker: breached with --security-opt systempaths=unconfined
# runc: held
# gVisor: held
def has_bytes(path):
    if os.path.isdir(path): return bool(os.listdir(path))
    try: return bool(read(path, 64))
    except OSError: return False
for path in ("/proc/keys", "/proc/timer_list", "/proc/acpi", "/proc/scsi", "/proc/latency_stats", "/proc/timer_stats",
             "/proc/sched_debug", "/sys/firmware", "/proc/asound", "/sys/devices/virtual/powercap"):
    if os.path.exists(path) and has_bytes(path): breached(path)
