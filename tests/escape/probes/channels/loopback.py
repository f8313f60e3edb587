# Tries: reach what listens on loopback in another container
# Idea: CDK's network namespace check; a debugger's or engine's port on 127.0.0.1
# Docker: breached with --network host
# runc: held
# gVisor: held
listener = socket.create_server(("127.0.0.1", 45123))
ready()
#--- meanwhile, in another container and on the host
if not connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 45123)): breached("connected")
