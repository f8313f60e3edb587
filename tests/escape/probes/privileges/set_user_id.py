# Tries: gain by a set-user-id program of the image
# Idea: deepce; HARDENING's list; CVE-2019-5021
# Docker: breached
# runc: held
# gVisor: held
if status("NoNewPrivs") != "1": breached("NoNewPrivs is off")
said = subprocess.run(["su", "root", "-c", "id -u"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
if said.stdout.strip() == "0": breached("su gives uid 0")
