# What the programs of the corpus share. A program prints what it got; nothing in here hides an error.
import json, os, socket, ssl, struct, subprocess, sys, time, urllib.request

TLS, PLAIN = int(os.environ["TLS"]), int(os.environ["PLAIN"])
_host, _port = os.environ["HTTPS_PROXY"].removeprefix("http://").rsplit(":", 1)
PROXY = (_host, int(_port))


def dial():
    s = socket.create_connection(PROXY)
    s.settimeout(20)
    return s


def everything(s):
    got = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return got
            got += piece
    except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
        return got


def head(s):
    got = b""
    while b"\r\n\r\n" not in got:
        piece = s.recv(1)
        if not piece:
            break
        got += piece
    return got


def raw(data):
    """Sends bytes to the proxy and prints all that comes back."""
    s = dial()
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    print(everything(s).decode("latin-1"))


def connect(target, extra=""):
    """A CONNECT, whose answer is printed; the socket."""
    s = dial()
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{extra}\r\n".encode("latin-1"))
    answer = head(s).decode("latin-1")
    print(answer)
    return s


def trust(alpn=None):
    context = ssl.create_default_context()
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def secure(host, port=None, name=None, alpn=None):
    """A connection to a host through the proxy, under TLS."""
    s = connect(f"{host}:{port or TLS}")
    return trust(alpn).wrap_socket(s, server_hostname=name or host)


def inside(host, data, port=None):
    """Sends bytes under TLS and prints all that comes back."""
    s = secure(host, port)
    s.sendall(data)
    print(everything(s).decode("latin-1"))


def hello(name):
    """The first bytes of a TLS connection to a host of this name; without one where it is None."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def with_extension(record, kind, body):
    """A ClientHello in one record, with one extension more."""
    handshake = record[5:]
    message = bytearray(handshake[4:])
    at = 34
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2], "big")
    at += 1 + message[at]
    length = int.from_bytes(message[at : at + 2], "big")
    more = struct.pack(">HH", kind, len(body)) + body
    message[at : at + 2] = struct.pack(">H", length + len(more))
    message += more
    handshake = handshake[:1] + len(message).to_bytes(3, "big") + bytes(message)
    return record[:3] + struct.pack(">H", len(handshake)) + handshake


def fetch(url, **kwargs):
    """A request as programs make it; prints status and body."""
    request = urllib.request.Request(url, **kwargs)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            print(answer.status, answer.read().decode("latin-1"))
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode("latin-1"))
    except OSError as error:
        print("failed:", error)


def curl(*arguments):
    """curl as it is; prints all that it says."""
    print(subprocess.run(["curl", "-sSv", "--max-time", "20", *arguments], capture_output=True, text=True))


def socks(command, address, port, greeting=b"\x05\x01\x00"):
    """A SOCKS 5 request; prints the reply's code; the socket."""
    s = dial()
    s.sendall(greeting)
    print("method", s.recv(2).hex())
    s.sendall(b"\x05" + bytes([command]) + b"\x00" + address + struct.pack(">H", port))
    reply = s.recv(10)
    print("reply", reply[1:2].hex())
    return s


def name(text):
    return b"\x03" + bytes([len(text)]) + text.encode("latin-1")
