# Tries: find an interface but lo
# Idea: CDK's network checks; HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
others = [name for _, name in socket.if_nameindex() if name != "lo"]
if others: breached(others)
