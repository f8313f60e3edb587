# Tries: raise the limits that it was given
# Idea: CAP_SYS_RESOURCE in amicontained's list
# Docker: held, it grants no CAP_SYS_RESOURCE
# runc: held
# gVisor: held
for name in ("RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_FSIZE"):
    kind = getattr(resource, name)
    now = resource.getrlimit(kind)[1]
    if now == resource.RLIM_INFINITY: continue
    try: resource.setrlimit(kind, (now + 1, now + 1)); breached(name)
    except (ValueError, OSError): pass
