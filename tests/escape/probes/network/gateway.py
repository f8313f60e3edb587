# Tries: reach the bridge's gateway, on which the host listens
# Idea: CDK docker-api-pwn; deepce's search of the network
# Docker: breached
# runc: held
# gVisor: held
for port in (9, 2375, 2376, 22):
    error = connect(socket.AF_INET, socket.SOCK_STREAM, ("172.17.0.1", port))
    if error not in ("ENETUNREACH", "EHOSTUNREACH"): breached(error or f"connected to port {port}")
