# Tries: a raw socket
# Idea: CAP_NET_RAW in amicontained's list; CVE-2020-14386
# Docker: breached
# runc: held EPERM
# gVisor: held
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); breached("opened")
