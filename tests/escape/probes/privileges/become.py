# Tries: become another user or group
# Idea: CAP_SETUID and CAP_SETGID in amicontained's list
# Docker: breached
# runc: held EPERM
# gVisor: held
every(("setuid", lambda: in_child(lambda: os.setuid(61235))),
      ("setgid", lambda: in_child(lambda: os.setgid(61235))),
      ("setgroups", lambda: in_child(lambda: os.setgroups([61235]))))
