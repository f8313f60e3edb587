# Tries: trace a process
# Idea: CDK check-ptrace; HARDENING's list
# Docker: breached
# runc: held EPERM
# gVisor: breached, gVisor does not apply the filter; what can be traced are processes of the sandbox
call(101, 117, 0, 0, 0, 0); breached("traced")
