# Tries: watch a whole file system by fanotify
# Idea: isolate's shared inodes; CVE-2024-35865's kin
# Docker: breached, or absent, with --cap-add SYS_ADMIN
# runc: held EPERM
# gVisor: held
call(300, 262, 0, 0); breached("a group")
