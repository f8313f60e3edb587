//! Clients that speak badly on purpose or by mistake: each is answered, and nothing of the server's is lost or grows.

#![expect(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests fail as tests do, and take what `json!` makes"
)]

mod fields;
mod flow;
mod lines;
mod noise;
mod unread;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    task::JoinHandle,
};

use crate::{
    client::PATIENCE,
    harness::{Parted, Setup},
};

/// The largest answer to what makes no sense, in bytes: it never repeats what a client wrote but a short id and a
/// shortened name.
const MAX_FAULT_BYTES: usize = 2000;

/// A client that writes bytes and reads lines, and nothing of its own accord.
struct Raw {
    write: WriteHalf<DuplexStream>,
    read: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    parts: Parted,
}

impl Raw {
    /// Connected, and nothing said yet.
    fn silent() -> Self {
        let (stream, parts) = Setup::new().serve();
        let (read, write) = tokio::io::split(stream);
        Self {
            write,
            read: BufReader::new(read).lines(),
            parts,
        }
    }

    /// After the handshake.
    async fn new() -> Self {
        let mut raw = Self::silent();
        raw.greet().await;
        raw
    }

    async fn greet(&mut self) {
        self.line(hello(0).to_string()).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], 0, "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    /// Writes a line as it is.
    async fn line(&mut self, line: impl AsRef<[u8]>) {
        self.write.write_all(line.as_ref()).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    async fn say(&mut self, message: &Value) {
        self.line(message.to_string()).await;
    }

    /// Sends a request.
    async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.say(&request(id, method, params)).await;
    }

    /// Begins to run a script.
    async fn run(&mut self, id: impl Into<Value>, code: &str) {
        self.say(&run(id, code)).await;
    }

    /// The next message, if one comes before the server leaves.
    async fn next_or_end(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.read.next_line()).await;
        let line = line.expect("an answer").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next message.
    async fn next(&mut self) -> Value {
        self.next_or_end().await.expect("the server is there")
    }

    /// The next answer, which is an error; its message.
    async fn fault(&mut self, code: i64, id: &Value) -> String {
        let answer = self.next().await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(&answer["id"], id, "{answer}");
        assert!(answer.to_string().len() < MAX_FAULT_BYTES, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    }

    /// Proves that the server still listens, and that nothing came before.
    async fn pings(&mut self) {
        self.ask("ping", "ping", json!({})).await;
        let answer = self.next().await;
        assert_eq!(
            answer,
            json!({"jsonrpc": "2.0", "id": "ping", "result": {}})
        );
    }

    /// Waits for the server's end; its broker is stopped, and what it left is looked at.
    async fn ended(served: JoinHandle<()>) {
        let ended = tokio::time::timeout(10 * PATIENCE, served).await;
        ended.expect("the server ends").unwrap();
    }
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
}

fn run(id: impl Into<Value>, code: &str) -> Value {
    call(id, "run_code", json!({"language": "python", "code": code}))
}

fn hello(id: impl Into<Value>) -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "clumsy", "version": "0"},
    });
    request(id, "initialize", params)
}

fn take_back(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}
