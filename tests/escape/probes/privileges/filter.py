# Tries: run without a filter of system calls
# Idea: amicontained's seccomp mode
# Docker: breached with --security-opt seccomp=unconfined
# runc: held
# gVisor: breached, its own kernel stands in the place of a filter, which it does not apply
if status("Seccomp") != "2": breached("mode " + status("Seccomp"))
