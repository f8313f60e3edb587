# Tries: tell another container something by a name that is in no file system
# Idea: CVE-2020-15257 (CDK shim-pwn); isolate's abstract sockets
# Docker: breached with --network host
# runc: held
# gVisor: held
name = socket.socket(socket.AF_UNIX); name.bind("\0belljar-probe-told"); name.listen()
ready()
#--- meanwhile, in another container and on the host
if not connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0belljar-probe-told"): breached("connected")
