# What one program waits for at a server: 200 requests on one connection, 20 on connections of their own, one download
# of 100 MiB. Through the proxy of HTTPS_PROXY where there is one, else straight to loopback. Prints milliseconds as JSON.
import http.client
import json
import os
import socket
import ssl
import time

HOST = "files.lab.test"
PORT = int(os.environ["PORT"])
PROXY = os.environ.get("HTTPS_PROXY", "").removeprefix("http://").rstrip("/")
HUGE = 100 * 1024 * 1024

trust = ssl.create_default_context()
trust.load_verify_locations(cadata=os.environ["CA"])


def opened():
    host, port = PROXY.rsplit(":", 1) if PROXY else ("127.0.0.1", PORT)
    raw = socket.create_connection((host, int(port)))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if PROXY:
        raw.sendall(f"CONNECT {HOST}:{PORT} HTTP/1.1\r\nHost: {HOST}:{PORT}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = raw.recv(4096)
            assert piece, f"the proxy ended the connection after {head!r}"
            head += piece
        assert b" 200 " in head.split(b"\r\n")[0], head
    connection = http.client.HTTPConnection(HOST, PORT)
    connection.sock = trust.wrap_socket(raw, server_hostname=HOST)
    return connection


def ask(connection):
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.read() == b"belljar test upstream", answer.status


def ms(action):
    began = time.perf_counter()
    action()
    return round((time.perf_counter() - began) * 1000, 4)


def alone():
    connection = opened()
    ask(connection)
    connection.close()


def download():
    connection = opened()
    connection.request("GET", "/huge?mib=100")
    answer = connection.getresponse()
    room = memoryview(bytearray(1 << 20))
    count = 0
    while piece := answer.readinto(room):
        count += piece
    assert count == HUGE, count
    connection.close()


kept = opened()
for _ in range(10):
    ask(kept)
each = [ms(lambda: ask(kept)) for _ in range(200)]
kept.close()
print(json.dumps({"each": each, "alone": [ms(alone) for _ in range(20)], "download": ms(download)}))
