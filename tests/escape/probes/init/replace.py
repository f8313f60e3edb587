# Tries: put another program where PID 1 was started from
# Idea: CVE-2019-5736; a hostile program that waits for the next container
# Docker: breached with --volume belljar-test-{random}:/.belljar
# runc: held
# gVisor: held
for path in ("/.belljar", "/.belljar/init", "/init"):
    if os.path.isdir(path):
        if not refused(open, path + "/probe", "w"): breached(path)
    elif os.path.exists(path) and not refused(open_to, path, os.O_WRONLY): breached(path)
