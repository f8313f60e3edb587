# Tries: overwrite the program of PID 1 and of this process by /proc
# Idea: CVE-2019-5736 (CDK runc-pwn)
# Docker: breached
# runc: held
# gVisor: held
for who in ("1", "self"):
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        error = refused(open_to, f"/proc/{who}/exe", flags)
        # Busy is no protection: whoever waits until the program ends may write.
        if error in (None, "ETXTBSY"): breached(f"/proc/{who}/exe: {error}")
