# Tries: make the root file system writable, and bind a folder elsewhere
# Idea: CDK's remounts; CVE-2024-21626's follow-up
# Docker: breached with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined
# runc: held EPERM
# gVisor: held
os.makedirs("/tmp/remount", exist_ok=True)
remount, bind = 32, 4096
every(("remount", lambda: checked(libc.mount(None, b"/", None, remount, None))),
      ("bind", lambda: checked(libc.mount(b"/etc", b"/tmp/remount", None, bind, None))))
