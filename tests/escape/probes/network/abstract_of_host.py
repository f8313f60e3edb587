# Tries: find an abstract socket of the host's
# Idea: CVE-2020-15257 (CDK shim-pwn)
# Docker: breached with --network host
# runc: held
# gVisor: held
sockets = [line for line in open("/proc/net/unix").read().splitlines()[1:] if line.split()[-1].startswith(("@", "/"))]
if sockets: breached(sockets[0])
