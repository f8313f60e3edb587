# Tries: reach the metadata services of clouds
# Idea: CDK's cloud metadata checks; HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
for address in ("169.254.169.254", "100.100.100.200", "192.0.0.192"):
    error = connect(socket.AF_INET, socket.SOCK_STREAM, (address, 80))
    if error not in ("ENETUNREACH", "EHOSTUNREACH"): breached(f"{address}: {error or 'connected'}")
