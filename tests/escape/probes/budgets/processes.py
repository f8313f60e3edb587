# Tries: more processes than the limit
# Idea: HARDENING's fork bomb
# Docker: breached
# runc: held
# gVisor: held or lost, a busy machine's gVisor may end over 125 processes
children = []
def spawn():
    pid = os.fork()
    if pid == 0: signal.pause()
    children.append(pid)
error = None
while not error and len(children) < 200: error = refused(spawn)
for pid in children: os.kill(pid, signal.SIGKILL)
if not error: breached("200 processes")
held(f"{error} after {len(children)}")
