//! What a client wrote, read once: a request, a notification, an answer, or the fault that it is told.
//!
//! The SDK's own reading leaves a client without any answer where a line is no JSON, holds half of a surrogate pair, is
//! nested deep or too long, and the client waits for ever. So everything is read here first, within bounds. A fault
//! must never repeat what the client wrote, but for a short id.

mod request;
mod scan;
mod value;

use rmcp::model::{ErrorCode, RequestId};
use serde_json::{Map, Value, json};

pub(super) use self::{
    request::{Inbound, Notice},
    scan::Scan,
};

/// The longest id that is text, in bytes: it is kept while its request is under way, and sent back. Stops ids of
/// megabytes, which would cost their size again for each answer.
pub(super) const MAX_ID_BYTES: usize = 256;
/// What all requests under way of one transport may hold, in bytes: two of the largest, or some ten thousand small ones.
/// Stops a client that sends calls faster than they end from filling the memory: the places where calls wait bound their
/// number, and not what each of them holds.
pub(super) const MAX_UNDER_WAY_BYTES: usize = 96 * 1024 * 1024;
/// What a request holds beside its parameters, in bytes: its task, its place in every table on its way.
pub(super) const REQUEST_BYTES: usize = 8 * 1024;
/// Too much is under way. Of the codes that the protocol leaves to servers.
const BUSY: i32 = -32000;
/// What Windows' tools put before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An id as it goes back to its client, or none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Echo(Value);

impl Echo {
    /// There is none, or none that could be told apart.
    pub(super) fn none() -> Self {
        Self(Value::Null)
    }

    /// That of `value`: a short text or a whole number.
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) if text.len() <= MAX_ID_BYTES => Self(value.clone()),
            Value::Number(number) if number.is_i64() || number.is_u64() => Self(value.clone()),
            _ => Self::none(),
        }
    }
}

impl From<&RequestId> for Echo {
    fn from(id: &RequestId) -> Self {
        Self(id.clone().into_json_value())
    }
}

impl From<Echo> for Value {
    fn from(echo: Echo) -> Self {
        echo.0
    }
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    code: ErrorCode,
    message: String,
    id: Echo,
}

impl Fault {
    /// It cannot be read.
    fn unreadable(error: &serde_json::Error, bytes: &[u8]) -> Self {
        let mut scan = Scan::default();
        scan.read(bytes);
        // Our own rules, or the language's.
        let code = if error.is_data() {
            ErrorCode::INVALID_REQUEST
        } else {
            ErrorCode::PARSE_ERROR
        };
        Self {
            code,
            message: format!("the message cannot be read as JSON: {error}"),
            id: scan.id(),
        }
    }

    /// It is no message of the protocol.
    fn invalid(id: Echo, message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: message.into(),
            id,
        }
    }

    /// Its parameters are none of its method's.
    fn params(id: Echo, message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::INVALID_PARAMS,
            message: message.into(),
            id,
        }
    }

    /// It has more than `most` bytes, and was not held.
    pub(super) fn too_long(id: Echo, most: usize) -> Self {
        Self::invalid(
            id,
            format!(
                "a message may have {most} bytes, and this one has more: it was not read. Give large content in several calls"
            ),
        )
    }

    /// Another request of the same id is under way, and its answer is the only one that bears the id.
    pub(super) fn duplicate() -> Self {
        Self::invalid(
            Echo::none(),
            "a request of the same id is under way: it goes on, and this one was not begun. Each request needs an id of its own",
        )
    }

    /// Too much is under way.
    pub(super) fn busy<'a>(id: impl Into<Option<&'a RequestId>>) -> Self {
        Self {
            code: ErrorCode(BUSY),
            message: "too many or too large requests are under way: this one was not begun. Wait for an answer, then send it again"
                .to_owned(),
            id: id.into().map_or_else(Echo::none, Echo::from),
        }
    }

    /// It ended without an answer.
    pub(super) fn internal(id: &RequestId) -> Self {
        Self {
            code: ErrorCode::INTERNAL_ERROR,
            message: "the request failed inside belljar; the server goes on".to_owned(),
            id: id.into(),
        }
    }

    /// It as an answer, without a line's end.
    pub(super) fn to_json(&self) -> String {
        json!({
            "jsonrpc": "2.0",
            "id": self.id.0,
            "error": {"code": self.code.0, "message": self.message},
        })
        .to_string()
    }
}

/// A message, its outermost object read and nothing else.
#[derive(Debug)]
pub(super) enum Envelope {
    /// It wants an answer.
    Request {
        id: RequestId,
        method: String,
        params: Option<Map<String, Value>>,
        /// What it takes in memory, in bytes, roughly.
        weight: usize,
    },
    /// It wants none.
    Notification {
        method: String,
        params: Option<Map<String, Value>>,
        /// As a request's.
        weight: usize,
    },
    /// It is an answer. Nobody asked for it: this server sends no requests.
    Answer,
}

impl Envelope {
    /// Reads a message.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let read = value::read(bytes).map_err(|error| Fault::unreadable(&error, bytes))?;
        let mut object = match read.value {
            Value::Object(object) => object,
            Value::Array(_) => {
                return Err(Fault::invalid(
                    Echo::none(),
                    "batches are no part of the protocol any more: send each message by itself",
                ));
            }
            _ => return Err(Fault::invalid(Echo::none(), "a message is a JSON object")),
        };
        let id = object.remove("id");
        let echo = id.as_ref().map_or_else(Echo::none, Echo::of);
        let invalid = |message: &str| Fault::invalid(echo.clone(), message);
        if object.get("jsonrpc") != Some(&Value::from("2.0")) {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        let answers = object.contains_key("result") || object.contains_key("error");
        let method = match (object.remove("method"), answers) {
            (Some(Value::String(method)), false) => method,
            (Some(_), false) => return Err(invalid("`method` must be a string")),
            (None, true) => return Ok(Self::Answer),
            (Some(_), true) | (None, false) => {
                return Err(invalid(
                    "a message has either `method`, or `result` or `error`",
                ));
            }
        };
        let params = match object.remove("params") {
            None | Some(Value::Null) => None,
            Some(Value::Object(params)) => Some(params),
            Some(_) => {
                return Err(Fault::params(echo, "`params` must be an object"));
            }
        };
        let Some(id) = id else {
            return Ok(Self::Notification {
                method,
                params,
                weight: read.weight,
            });
        };
        Ok(Self::Request {
            id: read_id(id).ok_or_else(|| {
                invalid(&format!(
                    "`id` must be a string of at most {MAX_ID_BYTES} bytes, or an integer of 64 bits"
                ))
            })?,
            method,
            params,
            weight: read.weight,
        })
    }
}

fn read_id(id: Value) -> Option<RequestId> {
    match id {
        Value::String(text) if text.len() > MAX_ID_BYTES => None,
        id => serde_json::from_value(id).ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(bytes: &[u8]) -> Value {
        let fault = Envelope::read(bytes).unwrap_err();
        serde_json::from_str(&fault.to_json()).unwrap()
    }

    #[test]
    fn every_fault_says_what_is_wrong_and_names_the_id_where_it_can() {
        for (text, code, id, words) in [
            ("{", -32700, json!(null), "EOF"),
            ("hello", -32700, json!(null), "expected value"),
            (r#"{"id":3,"x":"\ud800"}"#, -32700, json!(3), "hex escape"),
            (
                r#"{"id":"a","x":1e999}"#,
                -32700,
                json!("a"),
                "out of range",
            ),
            (r#"{"id":3,"x":1,"x":2}"#, -32600, json!(3), "twice"),
            (r#"[{"id":3}]"#, -32600, json!(null), "batches"),
            ("null", -32600, json!(null), "object"),
            ("{}", -32600, json!(null), "jsonrpc"),
            (
                r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
                -32600,
                json!(3),
                "jsonrpc",
            ),
            (r#"{"jsonrpc":"2.0","id":3}"#, -32600, json!(3), "`method`"),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"a","result":{}}"#,
                -32600,
                json!(3),
                "either",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":7}"#,
                -32600,
                json!(3),
                "string",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"a","params":[1]}"#,
                -32602,
                json!(3),
                "object",
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
                -32600,
                json!(null),
                "`id`",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
                -32600,
                json!(null),
                "`id`",
            ),
            (
                r#"{"jsonrpc":"2.0","id":[1],"method":"a"}"#,
                -32600,
                json!(null),
                "`id`",
            ),
            (
                r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#,
                -32600,
                json!(null),
                "`id`",
            ),
            (
                r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"a"}"#,
                -32600,
                json!(u64::MAX),
                "`id`",
            ),
        ] {
            let fault = fault(text.as_bytes());
            assert_eq!(fault["error"]["code"], code, "{text}: {fault}");
            assert_eq!(fault["id"], id, "{text}: {fault}");
            let message = fault["error"]["message"].as_str().unwrap();
            assert!(message.contains(words), "{text}: {fault}");
        }
        let long = json!({"jsonrpc": "2.0", "id": "x".repeat(1 << 20), "method": "a"}).to_string();
        assert!(fault(long.as_bytes()).to_string().len() < 400);
    }

    #[test]
    fn what_surrounds_a_message_does_not_matter() {
        for text in [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
            "  {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}\r",
            "{\"method\":\"ping\",\"jsonrpc\":\"2.0\",\"extra\":[],\"id\":1}",
        ] {
            let Ok(Envelope::Request { id, method, .. }) = Envelope::read(text.as_bytes()) else {
                panic!("{text} is a request");
            };
            assert_eq!((id, method.as_str()), (RequestId::Number(1), "ping"));
        }
    }

    proptest! {
        #[test]
        fn no_fault_repeats_what_the_client_wrote(text in "[\u{202e}\u{1b}\u{0}-\u{1f}a-z<>]{0,64}") {
            for message in [
                text.clone(),
                json!({"jsonrpc": text, "id": 1}).to_string(),
                json!({"jsonrpc": "2.0", "id": 1, "method": [&text]}).to_string(),
                json!({"jsonrpc": "2.0", "id": [&text], "method": "x"}).to_string(),
                json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": &text}).to_string(),
            ] {
                if let Err(fault) = Envelope::read(message.as_bytes()) {
                    let shown = fault.to_json();
                    prop_assert!(shown.is_ascii(), "{}", shown);
                    prop_assert!(shown.len() < 400, "{}", shown);
                }
            }
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Err(fault) = Envelope::read(&bytes) {
                prop_assert!(fault.to_json().len() < 4096);
            }
        }
    }
}
