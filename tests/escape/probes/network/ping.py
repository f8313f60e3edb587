# Tries: a ping socket
# Idea: HARDENING's list; CVE-2023-6932's kin
# Docker: breached
# runc: held EPERM
# gVisor: breached, it is of gVisor's own kernel, which does not apply the filter, and has no interface but lo
socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); breached("opened")
