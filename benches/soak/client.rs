//! A client over HTTP: one connection a call, so that closing it takes the call back.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use belljar::types::{MIB, read_at_most};
use serde_json::{Value, json};

use crate::server::Server;

/// The longest that an answer may take: the longest run, and a queue before it.
const CALL_DEADLINE: Duration = Duration::from_mins(2);

/// The longest answer, in bytes: no call here has a longer one.
const MAX_ANSWER_BYTES: u64 = 16 * MIB;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    token: String,
}

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) refused: bool,
    pub(crate) told: Value,
    pub(crate) text: String,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Self {
        Self {
            address: server.address(),
            token: server.token().to_owned(),
        }
    }

    fn begin(&self, tool: &str, arguments: &Value) -> anyhow::Result<TcpStream> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }})
        .to_string();
        let mut stream = TcpStream::connect(self.address).context("connect")?;
        stream.set_read_timeout(Some(CALL_DEADLINE))?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes())?;
        Ok(stream)
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> anyhow::Result<Answer> {
        let stream = self.begin(tool, arguments)?;
        let bytes = read_at_most(stream, MAX_ANSWER_BYTES)
            .with_context(|| format!("no answer to {tool}"))?;
        let message = message(&bytes).with_context(|| format!("the answer to {tool}"))?;
        let result = &message["result"];
        ensure!(result.is_object(), "{tool}: {message}");
        Ok(Answer {
            refused: result["isError"] == true,
            told: result["structuredContent"].clone(),
            text: result["content"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        })
    }

    /// Begins a call and hangs up after a while: it is taken back.
    pub(crate) fn call_and_hang_up(
        &self,
        tool: &str,
        arguments: &Value,
        after: Duration,
    ) -> anyhow::Result<()> {
        let stream = self.begin(tool, arguments)?;
        std::thread::sleep(after);
        drop(stream);
        Ok(())
    }
}

/// The one message of an answer, in an event or alone.
fn message(bytes: &[u8]) -> anyhow::Result<Value> {
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let split = split.context("no head")?;
    let head = String::from_utf8_lossy(&bytes[..split]).to_ascii_lowercase();
    let body = &bytes[split + 4..];
    let body = if head.contains("transfer-encoding: chunked") {
        unchunked(body).context("a body that breaks off")?
    } else {
        body.to_vec()
    };
    let body = String::from_utf8(body).context("a body of text")?;
    let events = body.lines().filter_map(|line| line.strip_prefix("data:"));
    events
        .chain([body.as_str()])
        .filter_map(|text| serde_json::from_str::<Value>(text).ok())
        .find(|message| message["id"] == 1)
        .with_context(|| format!("no message in {head} {body}"))
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 2 + size + 2..)?;
    }
}
