# Tries: the newer calls for mounts: fsopen, open_tree, move_mount, mount_setattr
# Idea: CVE-2022-0185 (fsconfig); SandboxEscapeBench
# Docker: breached with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined
# runc: held EPERM
# gVisor: held ENOSYS
clone = 1
every(("fsopen", call, 430, 430, ctypes.c_char_p(b"tmpfs"), 0),
      ("open_tree", call, 428, 428, -100, ctypes.c_char_p(b"/"), clone))
