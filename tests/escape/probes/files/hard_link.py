# Tries: a hard link to a program of the image, to keep it when it is mended
# Idea: fs.protected_hardlinks; CVE-2018-15664's family of links
# Docker: breached
# runc: held
# gVisor: held
for folder in ("/tmp", "/workspace", "/dev/shm", "/var/tmp"):
    if not refused(os.link, "/bin/su", folder + "/su"): breached(folder)
