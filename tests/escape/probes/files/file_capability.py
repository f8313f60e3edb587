# Tries: give a program a capability by its file
# Idea: amicontained and deepce look for file capabilities; setcap
# Docker: breached
# runc: held
# gVisor: held
shutil.copy("/bin/true", "/workspace/capable")
cap = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
os.setxattr("/workspace/capable", "security.capability", cap); breached("cap_net_bind_service")
