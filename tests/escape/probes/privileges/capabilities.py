# Tries: find one capability in any set
# Idea: amicontained; CDK's and deepce's capability checks
# Docker: breached
# runc: held
# gVisor: held
shown = read("/proc/self/status").decode()
for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    # gVisor shows fewer sets.
    if kind in shown and int(status(kind), 16): breached(kind + " " + status(kind))
assert "CapEff" in shown and "CapBnd" in shown
