//! HTTP by hand, so that a client can also send what no library would.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use serde_json::{Value, json};

/// What every client sends that speaks properly.
pub const PROPER: [(&str, &str); 2] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
];
/// The revision of the protocol that has no sessions.
pub const MODERN: &str = "2026-07-28";
/// The latest of those that have.
pub const LEGACY: &str = "2025-11-25";

/// A request with exactly these headers, and the size of its body.
#[must_use]
pub fn request(start: &str, head: &[(&str, &str)], body: &str) -> String {
    let more: String = head.iter().fold(String::new(), |text, (name, value)| {
        text + name + ": " + value + "\r\n"
    });
    let length = body.len();
    format!("{start} HTTP/1.1\r\nContent-Length: {length}\r\n{more}\r\n{body}")
}

/// More than the largest reply there is.
const MAX_REPLY: u64 = 64 * 1024 * 1024;

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    head: String,
    /// Its body, without the frames of its coding.
    pub body: String,
}

impl Reply {
    /// Reads a whole reply; none where it is not one, or not whole.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let head = head.to_ascii_lowercase();
        let body = if head.contains("transfer-encoding: chunked") {
            unchunked(rest)?
        } else {
            rest.to_owned()
        };
        Some(Self { status, head, body })
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let name = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&name))
    }

    /// The message with this id, in an event or alone.
    #[must_use]
    pub fn message(&self, id: u64) -> Option<Value> {
        let events = self.body.lines().filter_map(|l| l.strip_prefix("data:"));
        events
            .chain([self.body.as_str()])
            .filter_map(|text| serde_json::from_str::<Value>(text).ok())
            .find(|message| message["id"] == id)
    }
}

fn unchunked(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            break;
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
    Some(body)
}

/// Where a server listens, and what gets in there.
#[derive(Clone, Debug)]
pub struct Door {
    /// Its address.
    pub addr: SocketAddr,
    /// Its token.
    pub token: String,
}

impl Door {
    /// A connection on which nothing was said yet.
    #[must_use]
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).unwrap()
    }

    /// A message as a client with the token posts it, with more headers.
    #[must_use]
    pub fn post(&self, more: &[(&str, &str)], message: &Value) -> String {
        let (host, bearer) = (self.addr.to_string(), format!("Bearer {}", self.token));
        let mut head = vec![("Host", host.as_str()), ("Authorization", &bearer)];
        head.extend(PROPER);
        head.extend(more);
        request("POST /mcp", &head, &message.to_string())
    }

    /// A request of a client without a session. The end of its reply is the end of the connection.
    #[must_use]
    pub fn ask(&self, id: u64, method: &str, mut params: Value) -> String {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut head = vec![
            ("MCP-Protocol-Version", MODERN),
            ("Mcp-Method", method),
            ("Connection", "close"),
        ];
        if let Some(name) = params["name"].as_str() {
            head.push(("Mcp-Name", name));
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.post(&head, &message)
    }

    /// Sends this on a connection of its own, which stays open.
    pub fn begin(&self, text: &str) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.addr)?;
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    }
}

/// Everything that comes on a connection until its end, as a reply.
#[must_use]
pub fn reply(stream: &TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    // What was cut off is no reply, however it was cut off.
    let _ = io::copy(&mut stream.take(MAX_REPLY), &mut bytes);
    Reply::parse(&bytes)
}
