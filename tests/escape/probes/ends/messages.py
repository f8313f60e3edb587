# Tries: System V messages that outlive their run
# Idea: isolate's System V objects
# Docker: breached
# runc: held
# gVisor: held
queues = [libc.msgget(0, 0o1600) for _ in range(1000)]
for queue in queues: libc.msgsnd(queue, ctypes.byref(ctypes.create_string_buffer(b"\1" * 8200)), ctypes.c_size_t(8000), 0o4000)
#--- then, as another run
left = open("/proc/sysvipc/msg").read().splitlines()[1:] if os.path.exists("/proc/sysvipc/msg") else []
if left: breached(f"{len(left)} queues, {sum(int(line.split()[3]) for line in left)} bytes")
