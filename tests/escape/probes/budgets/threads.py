# Tries: more threads than the limit
# Idea: HARDENING's fork bomb, by threads
# Docker: breached
# runc: held
# gVisor: held or lost, a busy machine's gVisor may end over 125 processes
stop = threading.Event()
try:
    for n in range(200): threading.Thread(target=stop.wait, daemon=True).start()
except RuntimeError: held(f"refused after {n}")
breached("200 threads")
