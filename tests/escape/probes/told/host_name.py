# Tries: learn the container's id by its host name
# Idea: HARDENING's row of the host name
# Docker: breached
# runc: held
# gVisor: held
if re.fullmatch("[0-9a-f]{12}", os.uname().nodename): breached(os.uname().nodename)
