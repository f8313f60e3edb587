//! The SDK's form of a request or a notification, made of one that was read.
//!
//! It must never hand on a request of a method that there is as one of an unknown method: the SDK takes parameters that
//! it does not understand for that.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientNotification, ClientRequest, GetMeta as _,
    MetaObject, ProtocolVersion, RequestId, RequestMetaObject,
};
use serde_json::{Map, Value};

use super::{Echo, Fault};

/// The methods whose parameters matter here.
const METHODS: [&str; 6] = [
    "initialize",
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// The notifications that matter here.
const NOTICES: [&str; 2] = ["notifications/cancelled", "notifications/initialized"];

/// Whether a value is of the right type.
type IsRight = fn(&Value) -> bool;

/// Parameters that every method may have, and of what type they are.
const OPTIONAL: [(&str, IsRight); 2] = [("_meta", Value::is_object), ("cursor", Value::is_string)];

/// A request.
#[derive(Debug)]
pub(in crate::transport) struct Inbound {
    pub(in crate::transport) id: RequestId,
    pub(in crate::transport) request: ClientRequest,
    /// What it takes in memory, in bytes, roughly.
    pub(in crate::transport) weight: usize,
}

/// A notification.
#[derive(Debug)]
pub(in crate::transport) enum Notice {
    /// A request is taken back.
    Cancelled(RequestId, ClientNotification),
    /// The client has understood who the server is.
    Initialized(ClientNotification),
    /// Nothing that this server listens to.
    Other,
}

impl Inbound {
    /// A request whose outermost object was read.
    pub(in crate::transport) fn new(
        id: RequestId,
        method: &str,
        params: Option<Map<String, Value>>,
        weight: usize,
    ) -> Result<Self, Fault> {
        let request = match method {
            "tools/call" => call(&id, params.unwrap_or_default())?,
            _ => other(&id, method, params)?,
        };
        Ok(Self {
            id,
            request,
            weight,
        })
    }

    /// Whether the SDK takes it as the first of a conversation. Until it has one it takes nothing but requests, and
    /// gives up over anything else.
    pub(in crate::transport) fn opens(&self) -> bool {
        match &self.request {
            ClientRequest::InitializeRequest(_) => true,
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
            request => {
                let meta = request.get_meta();
                let version = meta.protocol_version();
                let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
                missing.is_empty()
                    && version.is_some_and(|it| ProtocolVersion::KNOWN_VERSIONS.contains(&it))
            }
        }
    }
}

/// Made by hand: in the SDK's way the arguments, which may be megabytes, would be copied three times.
fn call(id: &RequestId, mut params: Map<String, Value>) -> Result<ClientRequest, Fault> {
    let wrong = |message: &str| Fault::params(Echo::from(id), message);
    let Some(Value::String(name)) = params.remove("name") else {
        return Err(wrong("`name` must be the name of a tool"));
    };
    let mut call = CallToolRequestParams::new(name);
    match params.remove("arguments") {
        None | Some(Value::Null) => {}
        Some(Value::Object(arguments)) => call = call.with_arguments(arguments),
        Some(_) => return Err(wrong("`arguments` must be an object")),
    }
    let mut request = ClientRequest::from(CallToolRequest::new(call));
    match params.remove("_meta") {
        None | Some(Value::Null) => {}
        Some(Value::Object(meta)) => {
            *request.get_meta_mut() = RequestMetaObject(MetaObject(meta));
        }
        Some(_) => return Err(wrong("`_meta` must be an object")),
    }
    Ok(request)
}

fn other(
    id: &RequestId,
    method: &str,
    params: Option<Map<String, Value>>,
) -> Result<ClientRequest, Fault> {
    let known = METHODS.into_iter().find(|it| *it == method);
    // The SDK passes over optional parameters that are of another type.
    for (name, is_right) in OPTIONAL {
        let given = params.as_ref().and_then(|params| params.get(name));
        if given.is_some_and(|value| !value.is_null() && !is_right(value)) {
            return Err(Fault::params(
                Echo::from(id),
                format!("`{name}` is of another type"),
            ));
        }
    }
    let request = serde_json::from_value(message(method, params));
    match (request, known) {
        (Ok(ClientRequest::CustomRequest(_)) | Err(_), Some(known)) => Err(Fault::params(
            Echo::from(id),
            format!("the parameters are none of {known}: something is missing or of another type"),
        )),
        (Ok(request), _) => Ok(request),
        // It takes any method with any parameters.
        (Err(_), None) => Err(Fault::params(Echo::from(id), "the request cannot be read")),
    }
}

/// Its parameters, which may be megabytes, are moved.
fn message(method: &str, params: Option<Map<String, Value>>) -> Value {
    let mut message = Map::from_iter([("method".to_owned(), Value::from(method))]);
    message.extend(params.map(|params| ("params".to_owned(), Value::Object(params))));
    Value::Object(message)
}

impl Notice {
    /// A notification whose outermost object was read.
    pub(in crate::transport) fn new(method: &str, params: Option<Map<String, Value>>) -> Self {
        if !NOTICES.contains(&method) {
            return Self::Other;
        }
        match serde_json::from_value(message(method, Some(params.unwrap_or_default()))) {
            Ok(ClientNotification::CancelledNotification(it)) => match it.params.request_id.clone()
            {
                Some(id) => Self::Cancelled(id, ClientNotification::CancelledNotification(it)),
                None => Self::Other,
            },
            Ok(it @ ClientNotification::InitializedNotification(_)) => Self::Initialized(it),
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::Envelope, *};

    fn request(message: &Value) -> Result<Inbound, Fault> {
        match Envelope::read(message.to_string().as_bytes())? {
            Envelope::Request {
                id,
                method,
                params,
                weight,
            } => Inbound::new(id, &method, params, weight),
            other => panic!("no request: {other:?}"),
        }
    }

    #[test]
    fn a_call_is_the_one_that_the_sdk_would_read() {
        let meta =
            json!({"progressToken": 3, "io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let params =
            json!({"name": "run_code", "arguments": {"code": "x", "a": [1]}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let ours = request(&message).unwrap().request;
        let theirs: ClientRequest =
            serde_json::from_value(json!({"method": "tools/call", "params": params})).unwrap();
        assert_eq!(ours.get_meta(), theirs.get_meta());
        let (ClientRequest::CallToolRequest(ours), ClientRequest::CallToolRequest(theirs)) =
            (ours, theirs)
        else {
            panic!("both are calls");
        };
        assert_eq!(ours.params, theirs.params);
    }

    #[test]
    fn wrong_parameters_are_never_an_unknown_method() {
        for (method, params) in [
            ("tools/call", json!({})),
            ("tools/call", json!({"name": 1})),
            ("tools/call", json!({"name": "a", "arguments": []})),
            ("tools/call", json!({"name": "a", "_meta": 1})),
            ("initialize", json!({})),
            ("initialize", json!({"protocolVersion": 1})),
            ("resources/read", json!({})),
            ("resources/read", json!({"uri": 1})),
            ("resources/list", json!({"cursor": 1})),
            ("tools/list", json!({"_meta": 1})),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            let fault = request(&message).unwrap_err();
            let fault: Value = serde_json::from_str(&fault.to_json()).unwrap();
            assert_eq!(fault["error"]["code"], -32602, "{message}: {fault}");
            assert_eq!(fault["id"], 7);
        }
    }

    #[test]
    fn a_conversation_is_opened_by_what_the_sdk_takes_for_it() {
        let meta = |version: &str| {
            json!({"_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
            }})
        };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"},
        });
        for (method, params, opens) in [
            ("initialize", hello, true),
            ("tools/list", meta("2026-07-28"), true),
            ("no/such", meta("2026-07-28"), true),
            ("tools/list", json!({}), false),
            ("tools/list", meta("1999-01-01"), false),
            ("ping", meta("2026-07-28"), false),
            ("server/discover", meta("2026-07-28"), false),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            assert_eq!(request(&message).unwrap().opens(), opens, "{message}");
        }
    }
}
