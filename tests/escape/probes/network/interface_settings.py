# Tries: set an interface up, give it an address
# Idea: CAP_NET_ADMIN in amicontained's list; CVE-2020-13401
# Docker: breached with --cap-add NET_ADMIN
# runc: held
# gVisor: held
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x49)); breached("lo was set up")
