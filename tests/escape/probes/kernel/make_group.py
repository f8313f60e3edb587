# Tries: make a control group below the own one
# Idea: CDK mount-cgroup's first step; CVE-2022-0492
# Docker: breached with --volume /sys/fs/cgroup:/sys/fs/cgroup
# runc: held
# gVisor: held
for folder in glob.glob("/sys/fs/cgroup/*/") + ["/sys/fs/cgroup/"]:
    if not refused(os.mkdir, folder + "probe"):
        os.rmdir(folder + "probe")
        breached(folder)
