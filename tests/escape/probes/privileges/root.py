# Tries: be root, or in root's group
# Idea: deepce; amicontained; CIS 4.1
# Docker: breached
# runc: held
# gVisor: held
if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()): breached("uid, gid or a group is 0")
