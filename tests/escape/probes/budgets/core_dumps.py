# Tries: a core dump, which the host's core_pattern would handle
# Idea: CDK mount-procfs; CVE-2025-5054's kin (apport, systemd-coredump)
# Docker: breached
# runc: held
# gVisor: held
most = resource.getrlimit(resource.RLIMIT_CORE)[1]
if most: breached(f"the limit can be raised to {most}")
