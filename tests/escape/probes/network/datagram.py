# Tries: send a datagram to anywhere
# Idea: HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
error = connect(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 9))
if error not in ("ENETUNREACH", "EHOSTUNREACH"): breached(error or "a way to 192.0.2.1")
