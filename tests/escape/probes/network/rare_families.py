# Tries: the families of sockets that nobody needs and exploits like: key, RDS, TIPC, CAN, Bluetooth, SMC, XDP, QIPCRTR
# Idea: CVE-2010-3904 (RDS), CVE-2021-43267 (TIPC), CVE-2021-34866; isolate's list
# Docker: breached, or absent, with --cap-add NET_ADMIN --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
families = {"AX25": 3, "IPX": 4, "X25": 9, "KEY": 15, "RDS": 21, "PPPOX": 24, "LLC": 26, "CAN": 29, "TIPC": 30, "BLUETOOTH": 31,
            "RXRPC": 33, "PHONET": 35, "IEEE802154": 36, "NFC": 39, "KCM": 41, "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45}
every(*((name, socket.socket, family, kind) for name, family in families.items() for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW)))
