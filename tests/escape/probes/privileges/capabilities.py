# Tries: find one capability in any set
# Idea: amicontained; CDK's and deepce's capability checks
# Docker: breached
# runc: held
# gVisor: held
for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status(kind), 16): breached(kind + " " + status(kind))
