//! A client of HTTP that writes its requests by hand, so that it can also send what no library would.

use std::net::SocketAddr;

use belljar::{
    config::{FileOrigin, Settings},
    transport::http::{self, Listener, Options, Token},
    types::Cpus,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    client::{Answer, Era, PATIENCE},
    harness::World,
};

/// What every client sends that speaks properly.
const PROPER: [(&str, &str); 2] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
];

/// A second way into a world's server: its broker, over HTTP.
pub(crate) struct Http {
    pub(crate) addr: SocketAddr,
    pub(crate) token: Token,
    pub(crate) served: JoinHandle<()>,
    pub(crate) stop: CancellationToken,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_ascii_lowercase();
        let body = if head.contains("transfer-encoding: chunked") {
            unchunked(rest)
        } else {
            rest.to_owned()
        };
        Self { status, head, body }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let name = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&name))
    }

    /// The message with this id, in an event or alone.
    pub(crate) fn message(&self, id: u64) -> Value {
        let events = self.body.lines().filter_map(|l| l.strip_prefix("data:"));
        events
            .chain([self.body.as_str()])
            .filter_map(|text| serde_json::from_str::<Value>(text).ok())
            .find(|message| message["id"] == id)
            .unwrap_or_else(|| panic!("no message {id}: {self:?}"))
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    body
}

impl Http {
    /// Opens it.
    pub(crate) async fn on(world: &World) -> Self {
        let settings = Settings::parse("", FileOrigin::BuiltIn, Cpus::from_millis(4000)).unwrap();
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let (addr, token, stop) = (listener.addr(), Token::random(), CancellationToken::new());
        let serving = http::serve(
            world.broker.clone(),
            Options::from(&settings),
            listener,
            token.clone(),
            stop.clone(),
        );
        Self {
            addr,
            token,
            served: tokio::spawn(serving),
            stop,
        }
    }

    /// The header that shows the token.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token.expose())
    }

    /// Sends a request with exactly these headers, and the size of its body.
    pub(crate) async fn begin(&self, start: &str, head: &[(&str, &str)], body: &str) -> TcpStream {
        let more: String = head
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let length = body.len();
        let text = format!(
            "{start} HTTP/1.1\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n{body}"
        );
        let socket = TcpSocket::new_v4().unwrap();
        // Small, so that what nobody reads stays with the server.
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let mut stream = socket.connect(self.addr).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request with exactly these headers; the reply.
    pub(crate) async fn send(&self, start: &str, head: &[(&str, &str)], body: &str) -> Reply {
        reply(self.begin(start, head, body).await).await
    }

    /// Posts a message as a client with the token does, with more headers; the open connection.
    pub(crate) async fn begin_post(&self, more: &[(&str, &str)], message: &Value) -> TcpStream {
        self.begin_post_text(more, &message.to_string()).await
    }

    /// As [`Self::begin_post`], with any text as the body.
    pub(crate) async fn begin_post_text(&self, more: &[(&str, &str)], body: &str) -> TcpStream {
        let (host, bearer) = (self.addr.to_string(), self.bearer());
        let mut head = vec![("Host", host.as_str()), ("Authorization", &bearer)];
        head.extend(PROPER);
        head.extend(more);
        self.begin("POST /mcp", &head, body).await
    }

    /// As [`Self::begin_post`]; the reply.
    pub(crate) async fn post(&self, more: &[(&str, &str)], message: &Value) -> Reply {
        reply(self.begin_post(more, message).await).await
    }

    /// A client of this era, after its handshake.
    pub(crate) async fn client(&self, era: Era) -> HttpClient<'_> {
        let session = match era {
            Era::Modern => None,
            Era::Legacy => {
                let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "0"},
                }});
                let reply = self.post(&[], &initialize).await;
                let message = reply.message(1);
                assert_eq!(message["result"]["protocolVersion"], "2025-11-25");
                let session = reply.header("mcp-session-id").unwrap().to_owned();
                let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                let head = [("Mcp-Session-Id", session.as_str())];
                assert_eq!(self.post(&head, &done).await.status, 202);
                Some(session)
            }
        };
        HttpClient {
            http: self,
            session,
        }
    }
}

/// What comes back on a connection.
pub(crate) async fn reply(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let reading = async { while stream.read_buf(&mut bytes).await.unwrap() > 0 {} };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    Reply::parse(&bytes)
}

/// Speaks MCP over HTTP with the token.
pub(crate) struct HttpClient<'a> {
    http: &'a Http,
    /// Its session of the protocol, where its revision has them.
    session: Option<String>,
}

impl HttpClient<'_> {
    /// Sends a request and leaves the connection open.
    pub(crate) async fn begin(&self, method: &str, mut params: Value) -> TcpStream {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut head = Vec::new();
        if let Some(session) = &self.session {
            head.push(("Mcp-Session-Id", session.as_str()));
            head.push(("MCP-Protocol-Version", "2025-11-25"));
        } else {
            head.push(("MCP-Protocol-Version", "2026-07-28"));
            head.push(("Mcp-Method", method));
            if !name.is_empty() {
                head.push(("Mcp-Name", &name));
            }
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.http.begin_post(&head, &message).await
    }

    /// Sends a request; the whole response.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let reply = reply(self.begin(method, params).await).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        // Where there is nothing to wait for between the messages of an answer, there is no stream.
        let sent_as = reply.header("content-type").unwrap();
        match self.session {
            Some(_) => assert_eq!(sent_as, "text/event-stream"),
            None => assert_eq!(sent_as, "application/json"),
        }
        reply.message(7)
    }

    /// Takes back the request that is under way in its session.
    pub(crate) async fn take_back(&self) {
        let session = self.session.as_deref().unwrap();
        let head = [
            ("Mcp-Session-Id", session),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        assert_eq!(self.http.post(&head, &message).await.status, 202);
    }

    /// Begins a run.
    pub(crate) async fn begin_run(&self, code: &str) -> TcpStream {
        let arguments = json!({"language": "python", "code": code});
        let params = json!({"name": "run_code", "arguments": arguments});
        self.begin("tools/call", params).await
    }

    /// Calls a tool.
    pub(crate) async fn tool(&self, name: &str, arguments: Value) -> Answer {
        let params = json!({"name": name, "arguments": arguments});
        let response = self.request("tools/call", params).await;
        Answer::checked(name, response["result"].clone())
    }
}
