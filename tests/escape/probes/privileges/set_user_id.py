# Tries: gain by a set-user-id program of the image
# Idea: deepce; HARDENING's list; CVE-2019-5021
# Docker: breached
# runc: held
# gVisor: held
get_no_new_privs = 39
if libc.prctl(get_no_new_privs, 0, 0, 0, 0) != 1: breached("no_new_privs is off")
said = subprocess.run(["su", "root", "-c", "id -u"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
if said.stdout.strip() == "0": breached("su gives uid 0")
