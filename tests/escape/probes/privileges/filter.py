# Tries: run without a filter of system calls
# Idea: amicontained's seccomp mode
# Docker: breached with --security-opt seccomp=unconfined
# runc: held
# gVisor: held
if status("Seccomp") != "2": breached("mode " + status("Seccomp"))
