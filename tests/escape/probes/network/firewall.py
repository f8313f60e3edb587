# Tries: change a firewall by a socket's options
# Idea: CVE-2021-22555 (ip_tables), CVE-2022-0185's kin
# Docker: breached with --cap-add NET_ADMIN
# runc: held
# gVisor: held
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if os.getuid() else socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)
info = struct.pack("32s", b"filter") + bytes(52)
room = ctypes.create_string_buffer(info)
length = ctypes.c_uint(len(info))
if libc.getsockopt(s.fileno(), 0, 64, room, ctypes.byref(length)) == 0: breached("its tables can be read")
error = ctypes.get_errno()
# Who may not is told so; who may hears of its mistake.
if error not in (errno.EPERM, errno.ENOPROTOOPT): breached(errno.errorcode[error])
if error == errno.ENOPROTOOPT and os.getuid() == 0:
    refused_by = refused(socket.if_nametoindex, "none")
    request = struct.pack("16sh14x", b"lo", 0x49)
    if not refused(fcntl.ioctl, s, 0x8914, request): breached("an interface can be set")
raise OSError(error, "")
