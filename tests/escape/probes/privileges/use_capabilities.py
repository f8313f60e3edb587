# Tries: do what each of Docker's default capabilities allows
# Idea: amicontained's list of capabilities; CIS 5.3
# Docker: breached
# runc: held
# gVisor: breached, gVisor makes nodes of devices without CAP_MKNOD, as in files/device_node
open("/tmp/own", "w").close()
for name, act in {
    "CAP_CHOWN": lambda: os.chown("/tmp/own", 61235, 61235),
    "CAP_DAC_OVERRIDE": lambda: open_to("/etc/shadow", os.O_RDONLY),
    "CAP_FOWNER": lambda: os.utime("/etc/hostname"),
    "CAP_MKNOD": lambda: os.mknod("/tmp/node", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "CAP_SETFCAP": lambda: os.setxattr("/tmp/own", "security.capability", struct.pack("<IIIII", 0x02000001, 1, 0, 0, 0)),
    "CAP_SETPCAP": lambda: checked(libc.prctl(24, 0, 0, 0, 0)),
    "CAP_KILL": lambda: None if os.getuid() == 0 else os.kill(1, 0) if os.stat("/proc/1").st_uid != os.getuid() else checked(-1),
}.items():
    ctypes.set_errno(errno.EPERM)
    if not refused(act): breached(name)
