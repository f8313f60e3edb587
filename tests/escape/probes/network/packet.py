# Tries: a packet socket
# Idea: CVE-2020-14386; ARP spoofing on the bridge
# Docker: breached
# runc: held EPERM
# gVisor: held
socket.socket(17, socket.SOCK_RAW); breached("opened")
