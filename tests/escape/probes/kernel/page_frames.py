# Tries: learn which physical pages a process has
# Idea: Rowhammer's and Drammer's first step; /proc/self/pagemap
# Docker: breached with --cap-add SYS_ADMIN
# runc: held
# gVisor: held
page = mmap.mmap(-1, 4096); page[0] = 1
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
f = os.open("/proc/self/pagemap", os.O_RDONLY)
entry = struct.unpack("Q", os.pread(f, 8, at // 4096 * 8))[0]
if entry & ((1 << 55) - 1): breached(hex(entry))
