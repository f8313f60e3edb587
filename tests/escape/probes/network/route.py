# Tries: find a route
# Idea: HARDENING's list
# Docker: breached
# runc: held
# gVisor: held
routes = open("/proc/net/route").readlines()[1:]
if routes: breached(routes[0])
