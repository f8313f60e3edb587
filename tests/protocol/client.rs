//! A client that speaks in plain JSON lines, so that it can also say what no library would.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use belljar::{
    config::StructuredContent,
    tools::{Reach, catalogue},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, WriteHalf},
    sync::oneshot,
};

/// How long an answer may take before a test gives up. No test measures time.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// What every structured result is held against.
static OUTPUT_SCHEMAS: LazyLock<BTreeMap<String, jsonschema::Validator>> = LazyLock::new(|| {
    catalogue(StructuredContent::On, Reach::Sandbox)
        .into_iter()
        .map(|tool| {
            let schema = serde_json::to_value(&tool.output_schema).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            (tool.name.into_owned(), validator)
        })
        .collect()
});

/// The revision of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25, with a handshake.
    Legacy,
    /// 2026-07-28: every request carries its version.
    Modern,
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// A connected client.
pub(crate) struct Client {
    era: Era,
    write: tokio::sync::Mutex<WriteHalf<DuplexStream>>,
    pending: Pending,
    strays: Arc<Mutex<Vec<Value>>>,
    next: AtomicU64,
}

/// A request under way.
pub(crate) struct Call {
    pub(crate) id: u64,
    name: String,
    answer: oneshot::Receiver<Value>,
    pending: Pending,
}

impl Call {
    /// The whole response.
    pub(crate) async fn response(self) -> Value {
        tokio::time::timeout(PATIENCE, self.answer)
            .await
            .unwrap_or_else(|_| panic!("{} was not answered", self.name))
            .unwrap_or_else(|_| panic!("the server left before it answered {}", self.name))
    }

    /// The tool's answer, held against its schema.
    pub(crate) async fn answer(self) -> Answer {
        let tool = self.name.clone();
        let response = self.response().await;
        let result = response.get("result");
        let result = result.unwrap_or_else(|| panic!("{tool}: {response}"));
        Answer::checked(&tool, result.clone())
    }

    /// Whether an answer has come.
    pub(crate) fn is_answered(&self) -> bool {
        !self.pending.lock().unwrap().contains_key(&self.id)
    }
}

impl Client {
    /// Speaks over `stream`, after the handshake of its era.
    pub(crate) async fn connect(stream: DuplexStream, era: Era) -> Self {
        let (read, write) = tokio::io::split(stream);
        let client = Self {
            era,
            write: tokio::sync::Mutex::new(write),
            pending: Pending::default(),
            strays: Arc::default(),
            next: AtomicU64::new(1),
        };
        let (pending, strays) = (Arc::clone(&client.pending), Arc::clone(&client.strays));
        tokio::spawn(async move {
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let id = message["id"].as_u64();
                match id.and_then(|id| pending.lock().unwrap().remove(&id)) {
                    Some(waiting) => drop(waiting.send(message)),
                    None => strays.lock().unwrap().push(message),
                }
            }
            // Whoever still waits is told by the end of its channel.
            pending.lock().unwrap().clear();
        });
        if era == Era::Legacy {
            let answer = client
                .request(
                    "initialize",
                    json!({
                        "protocolVersion": "2025-11-25",
                        "capabilities": {},
                        "clientInfo": {"name": "test", "version": "0"},
                    }),
                )
                .await;
            assert_eq!(
                answer["result"]["protocolVersion"], "2025-11-25",
                "{answer}"
            );
            client.notify("notifications/initialized", json!({})).await;
        }
        client
    }

    /// Sends one line as it is.
    pub(crate) async fn line(&self, line: &str) {
        let mut write = self.write.lock().await;
        write.write_all(line.as_bytes()).await.unwrap();
        write.write_all(b"\n").await.unwrap();
    }

    /// Ends what the server reads.
    pub(crate) async fn close(&self) {
        self.write.lock().await.shutdown().await.unwrap();
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": self.marked(params)});
        self.line(&message.to_string()).await;
    }

    fn marked(&self, mut params: Value) -> Value {
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        params
    }

    /// Sends a request and does not wait.
    pub(crate) async fn begin(&self, method: &str, params: Value) -> Call {
        let name = match method {
            "tools/call" => params["name"].as_str().unwrap_or(method).to_owned(),
            _ => method.to_owned(),
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.pending.lock().unwrap().insert(id, sender);
        let params = self.marked(params);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(&message.to_string()).await;
        Call {
            id,
            name,
            answer,
            pending: Arc::clone(&self.pending),
        }
    }

    /// Sends a request; the whole response.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        self.begin(method, params).await.response().await
    }

    /// Begins a tool call.
    pub(crate) async fn begin_tool(&self, name: &str, arguments: Value) -> Call {
        let params = json!({"name": name, "arguments": arguments});
        self.begin("tools/call", params).await
    }

    /// Calls a tool.
    pub(crate) async fn tool(&self, name: &str, arguments: Value) -> Answer {
        self.begin_tool(name, arguments).await.answer().await
    }

    /// What came that nobody waited for.
    pub(crate) fn strays(&self) -> Vec<Value> {
        self.strays.lock().unwrap().clone()
    }
}

/// A tool's answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) result: Value,
}

impl Answer {
    /// The result of a tool, held against its schema.
    pub(crate) fn checked(tool: &str, result: Value) -> Self {
        if let Some(structured) = result.get("structuredContent") {
            let schema = OUTPUT_SCHEMAS.get(tool).unwrap();
            let errors: Vec<_> = schema
                .iter_errors(structured)
                .map(|error| error.to_string())
                .collect();
            assert!(errors.is_empty(), "{tool}: {errors:?} in {structured}");
        }
        Self { result }
    }

    fn is_error(&self) -> bool {
        self.result["isError"] == true
    }

    /// The structured result of a call that succeeded.
    #[track_caller]
    pub(crate) fn ok(&self) -> &Value {
        assert!(!self.is_error(), "{}", self.result);
        self.result.get("structuredContent").unwrap()
    }

    /// The text of a call that failed.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        assert!(self.is_error(), "it succeeded: {}", self.result);
        assert!(
            self.result.get("structuredContent").is_none(),
            "an error fits no output schema"
        );
        self.text()
    }

    /// The text of a call that failed, or nothing.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.is_error().then(|| self.text())
    }

    /// The first text.
    pub(crate) fn text(&self) -> &str {
        let first = &self.result["content"][0];
        assert_eq!(first["type"], "text", "{}", self.result);
        first["text"].as_str().unwrap()
    }

    /// What follows the first text.
    pub(crate) fn further(&self) -> &[Value] {
        &self.result["content"].as_array().unwrap()[1..]
    }
}
