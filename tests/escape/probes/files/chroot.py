# Tries: chroot
# Idea: isolate's and CIS's list; CVE-2021-4034 and others need a root of their own
# Docker: breached
# runc: held EPERM
# gVisor: held
os.chroot("/usr"); breached("chroot to /usr")
