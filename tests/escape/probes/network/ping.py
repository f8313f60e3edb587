# Tries: a ping socket
# Idea: HARDENING's list; CVE-2023-6932's kin
# Docker: breached
# runc: held EPERM
# gVisor: held
socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); breached("opened")
