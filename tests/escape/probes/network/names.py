# Tries: resolve a name, ask Docker's own resolver
# Idea: deepce's host.docker.internal; DNS tunnels
# Docker: breached with --add-host host.docker.internal:192.0.2.1
# runc: held
# gVisor: held
for name in ("host.docker.internal", "gateway.docker.internal"):
    try: breached(socket.gethostbyname(name))
    except socket.gaierror: pass
for server in re.findall(r"^nameserver (\S+)", open("/etc/resolv.conf").read(), re.M):
    if server != "127.0.0.1": breached("a resolver at " + server)
