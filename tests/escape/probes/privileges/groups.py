# Tries: be in a group of the host's that means power: docker, disk, sudo, shadow, kvm, lxd
# Idea: deepce's docker group
# Docker: breached with --group-add 6 --group-add 42
# runc: held
# gVisor: held
others = set(os.getgroups()) - {os.getgid()}
if others: breached(others)
