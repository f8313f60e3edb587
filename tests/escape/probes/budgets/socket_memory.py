# Tries: memory of the kernel's in the buffers of sockets that no memory limit counts
# Idea: isolate's and nsjail's limits; net.ipv4.udp_mem and tcp_mem are budgets of the whole machine
# Docker: held with cgroup v2; breached with v1
# runc: held with cgroup v2; breached with v1, version 1 of control groups does not count the buffers of sockets as memory
# gVisor: held
def charged():
    for path in ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes"):
        if os.path.exists(path): return int(read(path))
def held_by_sockets(): return int(re.search(rb"UDP:.* mem (\d+)", read("/proc/net/sockstat"))[1]) * 4096
counted, in_sockets = charged(), held_by_sockets()
kept, piece = [], b"\1" * 60_000
for _ in range(400):
    to, out = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    to.bind(("127.0.0.1", 0)); out.setblocking(False)
    for _ in range(3): refused(out.sendto, piece, to.getsockname())
    out.close(); kept.append(to)
counted, in_sockets = charged() - counted, held_by_sockets() - in_sockets
if counted < in_sockets // 2: breached(f"{in_sockets // MIB} MiB in sockets, {max(counted, 0) // MIB} of them counted")
held(f"{counted // MIB} MiB counted")
