# Tries: reach anything over IPv6
# Idea: HARDENING's list
# Docker: held, its default bridge has none
# runc: held
# gVisor: held
for address in ("2001:db8::1", "fd00:ec2::254", "fe80::1%lo"):
    if not connect(socket.AF_INET6, socket.SOCK_DGRAM, (address, 9)): breached(f"a way to {address}")
