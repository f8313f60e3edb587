# Tries: a user namespace by unshare and by clone
# Idea: CDK abuse-unpriv-userns (CVE-2022-0492); the first step of most exploits
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held EPERM
def cloned():
    pid = call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
every(("unshare", call, 272, 97, 0x10000000), ("clone", cloned))
