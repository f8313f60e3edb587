# Tries: netlink of the audit, netfilter, sockets, crypto and events of devices
# Idea: CVE-2022-32250 and others of nf_tables; HARDENING's list
# Docker: breached
# runc: held EPERM
# gVisor: breached, it is of gVisor's own kernel, which does not apply the filter
every(*((str(protocol), socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, protocol) for protocol in (9, 12, 4, 6, 21, 15, 16)))
