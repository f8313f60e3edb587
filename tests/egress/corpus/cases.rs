//! The table. A program is Python after `prelude.py`; what must never arrive has `evil` in its target.

/// What becomes of an attempt.
#[derive(Clone, Copy)]
pub(super) enum Expect {
    /// Denied for this reason and for no other, also on record, and nothing of it arrived.
    Denied(&'static str),
    /// Not an attack, though it looks like one: allowed, and the program prints this.
    Allowed(&'static str),
}
use Expect::{Allowed, Denied};

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) network: &'static str,
    pub(super) expect: Expect,
    pub(super) program: &'static str,
}

const fn lab(name: &'static str, expect: Expect, program: &'static str) -> Case {
    Case {
        name,
        network: "lab",
        expect,
        program,
    }
}

const fn nothing(name: &'static str, program: &'static str) -> Case {
    Case {
        name,
        network: "nothing",
        expect: Denied("host_not_allowed"),
        program,
    }
}

#[rustfmt::skip] // A table: the head of each row is a line, its program follows.
pub(super) const CASES: &[Case] = &[
    // 6. An empty list denies everything, plain HTTP included.
    nothing("an empty profile, https", r#"fetch(f"https://files.lab.test:{TLS}/evil")"#),
    nothing("an empty profile, http", r#"fetch(f"http://plain.lab.test:{PLAIN}/evil")"#),
    nothing("an empty profile, by address", r#"raw(b"GET http://127.0.0.1:%d/evil HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (PLAIN, PLAIN))"#),
    nothing("an empty profile, SOCKS", r#"socks(1, name("files.lab.test"), TLS)"#),

    // What is open is open, whatever its spelling.
    lab("an allowed host", Allowed("200 "), r#"fetch(f"https://files.lab.test:{TLS}/echo")"#),
    lab("capitals and a dot at the end", Allowed("HTTP/1.1 200"), r#"
s = trust().wrap_socket(connect(f"FILES.Lab.Test.:{TLS}"), server_hostname="files.lab.test")
s.sendall(b"GET /echo HTTP/1.1\r\nHost: Files.LAB.test:%d\r\nConnection: close\r\n\r\n" % TLS)
print(everything(s).decode("latin-1"))"#),
    lab("plain HTTP where it is opened", Allowed("200 "), r#"fetch(f"http://plain.lab.test:{PLAIN}/echo")"#),
    lab("below a wildcard", Allowed("200 "), r#"fetch(f"https://a.wild.test:{TLS}/echo")"#),
    lab("SOCKS to an allowed host", Allowed("HTTP/1.1 200"), r#"
s = trust().wrap_socket(socks(1, name("files.lab.test"), TLS), server_hostname="files.lab.test")
s.sendall(b"GET /echo HTTP/1.1\r\nHost: files.lab.test:%d\r\nConnection: close\r\n\r\n" % TLS)
print(everything(s).decode("latin-1"))"#),
    lab("an absolute target behind TLS, asked of the proxy", Allowed("HTTP/1.1 200"), r#"
raw(b"GET https://files.lab.test:%d/echo HTTP/1.1\r\nHost: files.lab.test:%d\r\nConnection: close\r\n\r\n" % (TLS, TLS))"#),
    lab("two requests on one connection", Allowed("HTTP/1.1 200"), r#"
one = b"GET /echo?n=1 HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\n" % TLS
two = b"GET /echo?n=2 HTTP/1.1\r\nHost: files.lab.test:%d\r\nConnection: close\r\n\r\n" % TLS
s = secure("files.lab.test"); s.sendall(one + two); got = everything(s)
assert got.count(b"HTTP/1.1 200") == 2, got
print(got.decode("latin-1"))"#),
    lab("HTTP/2", Allowed("status=200 2"), r#"
print(subprocess.run(["curl", "-sS", "--http2", "-o", "/dev/null", "-w", "status=%{http_code} %{http_version}",
    f"https://files.lab.test:{TLS}/echo"], capture_output=True, text=True).stdout)"#),

    // 2. Hosts.
    lab("another host", Denied("host_not_allowed"), r#"fetch(f"https://other.lab.test:{TLS}/evil")"#),
    lab("another port", Denied("host_not_allowed"), r#"connect("files.lab.test:22")"#),
    lab("the plain server by another name", Denied("host_not_allowed"), r#"fetch(f"http://other.lab.test:{PLAIN}/evil")"#),
    lab("the wildcard's own name", Denied("host_not_allowed"), r#"fetch(f"https://wild.test:{TLS}/evil")"#),
    lab("a name that ends like the wildcard", Denied("host_not_allowed"), r#"fetch(f"https://notwild.test:{TLS}/evil")"#),
    lab("the server's address", Denied("host_not_allowed"), r#"connect(f"127.0.0.1:{TLS}")"#),
    lab("the server's address as a number", Denied("host_not_allowed"), r#"connect(f"2130706433:{TLS}")"#),
    lab("the server's address in hexadecimal", Denied("host_not_allowed"), r#"connect(f"0x7f.1:{TLS}")"#),
    lab("the server's address in octal", Denied("host_not_allowed"), r#"connect(f"0177.0.0.01:{TLS}")"#),
    lab("the server's address, mapped", Denied("host_not_allowed"), r#"connect(f"[::ffff:127.0.0.1]:{TLS}")"#),
    lab("loopback of IPv6", Denied("host_not_allowed"), r#"connect(f"[::1]:{TLS}")"#),
    lab("metadata by its address", Denied("host_not_allowed"), r#"fetch("http://169.254.169.254/evil")"#),
    lab("a name with NUL", Denied("malformed_head"), r#"connect(f"files.lab.test\0.evil.test:{TLS}")"#),
    lab("a name with a percent sign", Denied("host_syntax"), r#"connect(f"files.lab.test%00:{TLS}")"#),
    lab("a zone", Denied("host_syntax"), r#"connect(f"[fe80::1%eth0]:{TLS}")"#),
    lab("a user before the name", Denied("host_syntax"), r#"connect(f"files.lab.test:1@evil.test:{TLS}")"#),
    lab("an empty label", Denied("host_syntax"), r#"connect(f"files..lab.test:{TLS}")"#),
    lab("two dots at the end", Denied("host_syntax"), r#"connect(f"files.lab.test..:{TLS}")"#),
    lab("a name that is too long", Denied("host_syntax"), r#"connect("a." * 130 + f"lab.test:{TLS}")"#),
    lab("a label that is too long", Denied("host_syntax"), r#"connect("a" * 64 + f".wild.test:{TLS}")"#),
    lab("an international name", Denied("malformed_head"), r#"connect(f"f\u00efles.lab.test:{TLS}")"#),
    lab("no port", Denied("host_syntax"), r#"connect("files.lab.test")"#),
    lab("port 0", Denied("host_syntax"), r#"connect("files.lab.test:0")"#),
    lab("a port past the last", Denied("host_syntax"), r#"connect("files.lab.test:65979")"#),
    lab("an address past the last", Denied("host_syntax"), r#"connect(f"4294967296:{TLS}")"#),

    // 3. Addresses, whatever the name.
    lab("a name that leads to metadata", Denied("address_denied"), r#"fetch(f"https://meta.lab.test:{TLS}/evil")"#),
    lab("a name that leads to private addresses", Denied("address_denied"), r#"fetch(f"https://inside.lab.test:{TLS}/evil")"#),

    lab("curl to another host", Denied("host_not_allowed"), r#"curl(f"https://other.lab.test:{TLS}/evil")"#),
    lab("curl by address and another name", Denied("host_not_allowed"), r#"curl("--connect-to", "::127.0.0.1:", f"https://files.lab.test:{TLS}/evil")"#),
    lab("curl in the clear to a host of https", Denied("scheme_not_allowed"), r#"curl(f"http://files.lab.test:{TLS}/evil")"#),
    lab("curl by SOCKS to another host", Denied("host_not_allowed"), r#"
curl("--proxy", f"socks5h://{PROXY[0]}:{PROXY[1]}", f"https://other.lab.test:{TLS}/evil")"#),
    lab("curl by SOCKS to an address that it resolved itself", Denied("host_not_allowed"), r#"
curl("--proxy", f"socks5://{PROXY[0]}:{PROXY[1]}", "--resolve", f"files.lab.test:{TLS}:127.0.0.1", f"https://files.lab.test:{TLS}/evil")"#),
    lab("curl past the certificate, to another name", Denied("host_mismatch"), r#"
curl("-k", "-H", "Host: other.lab.test", "--http1.1", f"https://files.lab.test:{TLS}/evil")"#),
    lab("curl with TRACE", Denied("forbidden_method"), r#"curl("-X", "TRACE", "--http1.1", f"https://files.lab.test:{TLS}/evil")"#),
    lab("curl with both lengths", Denied("ambiguous_length"), r#"
curl("--http1.1", "-H", "Transfer-Encoding: chunked", "-H", "Content-Length: 4", "-d", "abcd", f"https://files.lab.test:{TLS}/evil")"#),
    lab("curl with a change of protocol", Denied("upgrade"), r#"curl("--http2", "--proxytunnel", f"http://plain.lab.test:{PLAIN}/evil")"#),

    // 4. The first message of TLS.
    lab("no TLS at all", Denied("not_tls"), r#"
s = connect(f"files.lab.test:{TLS}"); s.sendall(b"SSH-2.0-probe\r\n"); print(everything(s))"#),
    lab("HTTP where TLS belongs", Denied("not_tls"), r#"
s = connect(f"files.lab.test:{TLS}"); s.sendall(b"GET /evil HTTP/1.1\r\nHost: files.lab.test\r\n\r\n"); print(everything(s))"#),
    lab("no server name", Denied("server_name_missing"), r#"
s = connect(f"files.lab.test:{TLS}"); s.sendall(hello(None)); print(everything(s))"#),
    lab("another server name", Denied("server_name_mismatch"), r#"
s = connect(f"files.lab.test:{TLS}"); s.sendall(hello("api.lab.test")); print(everything(s))"#),
    lab("another server name in a tunnel", Denied("server_name_mismatch"), r#"
s = connect(f"pinned.lab.test:{TLS}"); s.sendall(hello("files.lab.test")); print(everything(s))"#),
    lab("a hidden server name", Denied("encrypted_client_hello"), r#"
s = connect(f"files.lab.test:{TLS}")
s.sendall(with_extension(hello("files.lab.test"), 0xfe0d, b"\0" * 16)); print(everything(s))"#),
    lab("a hidden server name in a tunnel", Denied("encrypted_client_hello"), r#"
s = connect(f"pinned.lab.test:{TLS}")
s.sendall(with_extension(hello("pinned.lab.test"), 0xfe0d, b"\0" * 16)); print(everything(s))"#),
    lab("a tunnel", Allowed("HTTP/1.1 200"), r#"
inside("pinned.lab.test", b"GET /echo HTTP/1.1\r\nHost: pinned.lab.test\r\nConnection: close\r\n\r\n")"#),

    // 4. Every request inside.
    lab("another Host in the first request", Denied("host_mismatch"), r#"
inside("files.lab.test", b"GET /evil HTTP/1.1\r\nHost: api.lab.test:%d\r\n\r\n" % TLS)"#),
    lab("another Host in the second request", Denied("host_mismatch"), r#"
s = secure("files.lab.test")
s.sendall(b"GET /echo HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\n" % TLS); print(head(s))
s.sendall(b"GET /evil HTTP/1.1\r\nHost: other.lab.test\r\n\r\n"); print(everything(s).decode("latin-1"))"#),
    lab("another Host in a pipelined request", Denied("host_mismatch"), r#"
inside("files.lab.test", b"GET /echo HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\nGET /evil HTTP/1.1\r\nHost: other.lab.test\r\n\r\n" % TLS)"#),
    lab("another port in Host", Denied("host_mismatch"), r#"
inside("files.lab.test", b"GET /evil HTTP/1.1\r\nHost: files.lab.test:1\r\n\r\n")"#),
    lab("another authority in HTTP/2", Denied("host_mismatch"), r#"
print(subprocess.run(["curl", "-sS", "--http2", "-H", "Host: other.lab.test", f"https://files.lab.test:{TLS}/evil"],
    capture_output=True, text=True))"#),
    lab("another method", Denied("method_not_allowed"), r#"fetch(f"https://api.lab.test:{TLS}/repos/evil", method="DELETE")"#),
    lab("another method in HTTP/2", Denied("method_not_allowed"), r#"
print(subprocess.run(["curl", "-sS", "--http2", "-X", "POST", f"https://api.lab.test:{TLS}/repos/evil"], capture_output=True, text=True))"#),
    lab("another path", Denied("path_not_allowed"), r#"fetch(f"https://api.lab.test:{TLS}/evil")"#),
    lab("a path that climbs", Denied("path_ambiguous"), r#"
inside("api.lab.test", b"GET /repos/../evil HTTP/1.1\r\nHost: api.lab.test:%d\r\nConnection: close\r\n\r\n" % TLS)"#),
    lab("a path that climbs, encoded", Denied("path_ambiguous"), r#"
inside("api.lab.test", b"GET /repos/%2e%2e/evil HTTP/1.1\r\nHost: api.lab.test:{TLS}\r\nConnection: close\r\n\r\n".replace(b"{TLS}", str(TLS).encode()))"#),
    lab("a path with an encoded separator", Denied("path_ambiguous"), r#"
inside("api.lab.test", b"GET /repos/..%2fevil HTTP/1.1\r\nHost: api.lab.test:{TLS}\r\nConnection: close\r\n\r\n".replace(b"{TLS}", str(TLS).encode()))"#),

    lab("another method and path by headers", Allowed("HTTP/1.1 200"), r#"
s = secure("api.lab.test")
s.sendall(b"GET /echo HTTP/1.1\r\nHost: api.lab.test:%d\r\nX-HTTP-Method-Override: EVIL\r\nX_Original_URL: /evil\r\nConnection: close\r\n\r\n" % TLS)
got = everything(s).decode("latin-1"); assert "evil" not in got.lower(), got
print(got)"#),

    // 5. Smuggling.
    lab("both lengths", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % TLS)"#),
    lab("both lengths, the other way round", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" % TLS)"#),
    lab("two lengths", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde" % TLS)"#),
    lab("the same length twice", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd" % TLS)"#),
    lab("a list of lengths", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nContent-Length: 4, 4\r\n\r\nabcd" % TLS)"#),
    lab("a length with a sign", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nContent-Length: +4\r\n\r\nabcd" % TLS)"#),
    lab("another transfer coding", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" % TLS)"#),
    lab("a transfer coding with a mark", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" % TLS)"#),
    lab("the transfer coding twice", Denied("ambiguous_length"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" % TLS)"#),
    lab("a folded header", Denied("malformed_head"), r#"
inside("files.lab.test", b"GET /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nX-A: b\r\n c\r\n\r\n" % TLS)"#),
    lab("white space before the colon", Denied("malformed_head"), r#"
inside("files.lab.test", b"POST /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nContent-Length : 4\r\n\r\nabcd" % TLS)"#),
    lab("two Hosts", Denied("malformed_head"), r#"
inside("files.lab.test", b"GET /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nHost: other.lab.test\r\n\r\n" % TLS)"#),
    lab("no Host", Denied("malformed_head"), r#"inside("files.lab.test", b"GET /evil HTTP/1.1\r\n\r\n")"#),
    lab("a lone line feed", Denied("malformed_head"), r#"
inside("files.lab.test", b"GET /evil HTTP/1.1\nHost: files.lab.test:%d\n\n" % TLS)"#),
    lab("an absolute target for another host", Denied("host_mismatch"), r#"
inside("files.lab.test", b"GET https://other.lab.test/evil HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\n" % TLS)"#),
    lab("a target that no URL has", Denied("malformed_head"), r#"
raw(b"GET http://plain.lab.test:%d\\@other.lab.test/evil HTTP/1.1\r\nHost: plain.lab.test:%d\r\n\r\n" % (PLAIN, PLAIN))"#),
    lab("an absolute target for another Host, in the clear", Denied("host_mismatch"), r#"
raw(b"GET http://plain.lab.test:%d/evil HTTP/1.1\r\nHost: other.lab.test\r\n\r\n" % PLAIN)"#),
    lab("CONNECT inside", Denied("forbidden_method"), r#"
inside("files.lab.test", b"CONNECT evil.lab.test:443 HTTP/1.1\r\nHost: evil.lab.test:443\r\n\r\n")"#),
    lab("TRACE", Denied("forbidden_method"), r#"
inside("files.lab.test", b"TRACE /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\n\r\n" % TLS)"#),
    lab("a change to HTTP/2 in the clear", Denied("upgrade"), r#"
raw(b"GET http://plain.lab.test:%d/evil HTTP/1.1\r\nHost: plain.lab.test:%d\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" % (PLAIN, PLAIN))"#),
    lab("a change to WebSocket", Denied("upgrade"), r#"
inside("files.lab.test", b"GET /evil HTTP/1.1\r\nHost: files.lab.test:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" % TLS)"#),
    lab("HTTP/2 in the clear, unasked", Denied("malformed_head"), r#"
s = connect(f"plain.lab.test:{PLAIN}")
s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)); print(everything(s))"#),
    lab("HTTP in the clear to a host of https", Denied("scheme_not_allowed"), r#"fetch(f"http://files.lab.test:{TLS}/evil")"#),
    lab("TLS to a host of http", Denied("scheme_not_allowed"), r#"
s = connect(f"plain.lab.test:{PLAIN}"); s.sendall(hello("plain.lab.test")); print(everything(s))"#),
    lab("an absolute target behind TLS, to another host", Denied("host_not_allowed"), r#"
raw(b"GET https://other.lab.test:%d/evil HTTP/1.1\r\nHost: other.lab.test:%d\r\n\r\n" % (TLS, TLS))"#),
    lab("an absolute target behind TLS, through a tunnel's rule", Denied("host_not_allowed"), r#"
raw(b"GET https://pinned.lab.test:%d/evil HTTP/1.1\r\nHost: pinned.lab.test:%d\r\n\r\n" % (TLS, TLS))"#),
    lab("a redirect to another host", Denied("host_not_allowed"), r#"
fetch(f"https://files.lab.test:{TLS}/redirect?to=https://other.lab.test:{TLS}/elsewhere")"#),

    // 5. Other protocols.
    lab("SOCKS to another host", Denied("host_not_allowed"), r#"socks(1, name("other.lab.test"), TLS)"#),
    lab("SOCKS to an address", Denied("host_not_allowed"), r#"socks(1, b"\x01\x7f\x00\x00\x01", TLS)"#),
    lab("SOCKS to an address of IPv6", Denied("host_not_allowed"), r#"socks(1, b"\x04" + bytes(15) + b"\x01", TLS)"#),
    lab("SOCKS with NUL in the name", Denied("host_syntax"), r#"socks(1, name("files.lab.test\0x"), TLS)"#),
    lab("SOCKS BIND", Denied("protocol"), r#"socks(2, name("files.lab.test"), TLS)"#),
    lab("SOCKS UDP", Denied("protocol"), r#"socks(3, name("files.lab.test"), TLS)"#),
    lab("SOCKS 4", Denied("protocol"), r#"raw(b"\x04\x01" + struct.pack(">H", TLS) + b"\x7f\x00\x00\x01\x00")"#),
    lab("a target without a host", Denied("protocol"), r#"raw(b"GET /evil HTTP/1.1\r\nHost: files.lab.test\r\n\r\n")"#),
    lab("FTP", Denied("protocol"), r#"raw(b"GET ftp://files.lab.test/evil HTTP/1.1\r\nHost: files.lab.test\r\n\r\n")"#),
    lab("noise", Denied("protocol"), "raw(bytes(range(128, 256)) * 64)"),
];
