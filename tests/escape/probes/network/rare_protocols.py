# Tries: SCTP, DCCP, MPTCP, UDP-Lite and L2TP over addresses
# Idea: CVE-2017-6074 (DCCP), CVE-2021-23133 (SCTP)
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
kinds = {"SCTP": (1, 132), "DCCP": (6, 33), "MPTCP": (1, 262), "UDPLITE": (2, 136), "L2TP": (2, 115)}
every(*((name, socket.socket, socket.AF_INET, kind, protocol) for name, (kind, protocol) in kinds.items()))
