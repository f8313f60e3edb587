# Tries: turn off the randomness of addresses, or take another system's rules
# Idea: moby's filter of personality; CVE-2019-10193's kin
# Docker: breached, or absent, with --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
call(135, 92, 0x0040000); breached("ADDR_NO_RANDOMIZE")
