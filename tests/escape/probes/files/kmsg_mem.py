# Tries: open the kernel's memory, its log, ports, FUSE, TUN, KVM and loop devices
# Idea: CDK's device exploits; CVE-2020-14386's and FUSE escapes' first step
# Docker: breached with --device /dev/kmsg --cap-add SYSLOG
# runc: held
# gVisor: breached, its /dev has a fuse, of gVisor's own kernel
for name in ("mem", "kmem", "port", "kmsg", "fuse", "net/tun", "kvm", "loop-control", "loop0", "vsock", "vhost-vsock",
             "uinput", "cuse", "mapper/control", "snapshot", "nvram", "cpu/0/msr", "vhci"):
    if not refused(open_to, "/dev/" + name, os.O_RDONLY): breached("/dev/" + name)
