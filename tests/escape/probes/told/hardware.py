# Tries: learn serial numbers of the machine, its disks and its network cards
# Idea: deepce's and CDK's information gathering
# Docker: breached with --network host
# runc: held
# gVisor: held
for pattern in ("/sys/class/dmi/id/*_serial", "/sys/class/dmi/id/product_uuid", "/sys/class/net/*/address", "/sys/class/block/*/device/serial"):
    for path in glob.glob(pattern):
        try: text = read(path).decode().strip()
        except OSError: continue
        if text and text != "00:00:00:00:00:00": breached(f"{path} {text}")
