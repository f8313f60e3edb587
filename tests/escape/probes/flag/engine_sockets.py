# Tries: find a socket of a container engine
# Idea: CDK docker-sock-check and docker-sock-pwn; deepce
# Docker: breached with --volume /var/run/docker.sock:/var/run/docker.sock
# runc: held
# gVisor: held
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
             "/run/crio/crio.sock", "/run/buildkit/buildkitd.sock", "/run/docker/containerd/containerd.sock",
             "/run/containerd/s", "/run/systemd/private", "/run/dbus/system_bus_socket"):
    if os.path.lexists(path): breached(path)
for folder, below, names in os.walk("/"):
    if folder.startswith(("/proc", "/sys")): below[:] = []; continue
    for name in names:
        path = os.path.join(folder, name)
        try: mode = os.lstat(path).st_mode
        except OSError: continue
        if stat.S_ISSOCK(mode): breached(path)
