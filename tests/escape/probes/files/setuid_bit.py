# Tries: keep a set-user-id bit where it would count
# Idea: deepce's and linpeas's set-user-id search; CVE-2021-4034's end
# Docker: breached
# runc: held
# gVisor: breached, it does not show that the folder is mounted nosuid; no program gains by such a bit, see privileges/set_user_id
for folder in ("/tmp", "/workspace", "/dev/shm", "/var/tmp"):
    if refused(shutil.copy, "/bin/true", folder + "/setuid"): continue
    os.chmod(folder + "/setuid", 0o4755)
    mounted = [line.split() for line in open("/proc/mounts")]
    options = [fields[3].split(",") for fields in mounted if folder.startswith(fields[1])][-1]
    os.unlink(folder + "/setuid")
    if "nosuid" not in options: breached(folder)
