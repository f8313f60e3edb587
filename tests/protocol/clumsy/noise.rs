//! Arbitrary bytes and arbitrary messages: the server lives, and afterwards a ping is answered.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Raw;

/// One server for many lines: what one leaves behind must not harm the next.
fn survives(lines: &[Vec<u8>]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for greeted in [false, true] {
            let mut raw = if greeted {
                Raw::new().await
            } else {
                Raw::silent()
            };
            for line in lines {
                raw.line(line).await;
            }
            raw.ask("the last one", "ping", json!({})).await;
            loop {
                let answer = raw.next().await;
                assert_eq!(answer["jsonrpc"], "2.0");
                assert!(
                    answer.get("result").is_some() != answer.get("error").is_some(),
                    "{answer}"
                );
                if answer["id"] == "the last one" {
                    // A conversation that was opened by a request of 2026 has no pings, and no request without its version.
                    let code = &answer["error"]["code"];
                    assert!(
                        answer["result"].is_object() || *code == -32601 || *code == -32602,
                        "{answer}"
                    );
                    break;
                }
            }
        }
    });
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "name",
            "arguments",
            "_meta",
            "requestId",
            "progressToken",
            "uri",
            "cursor",
            "session",
            "path",
            "protocolVersion",
            "capabilities",
            "clientInfo",
            "version",
            "artifact_id",
            "length",
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientCapabilities",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,4}",
    ]
}

fn method() -> impl Strategy<Value = Value> {
    let methods = vec![
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "resources/subscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "subscriptions/listen",
        "tasks/get",
        "tasks/cancel",
        "skills/list",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "sampling/createMessage",
        "elicitation/create",
        "",
    ];
    prop_oneof![
        8 => prop::sample::select(methods).prop_map(Value::from),
        1 => json_value(),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let part = |strategy: BoxedStrategy<Value>| prop::option::weighted(0.8, strategy);
    let version = prop_oneof![9 => Just(json!("2.0")), 1 => json_value()];
    let id = prop_oneof![4 => (0_i64..4).prop_map(Value::from), 1 => json_value()];
    let params = prop_oneof![
        4 => prop::collection::vec((name(), json_value()), 0..5)
            .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        1 => json_value(),
        1 => Just(json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }})),
    ];
    let parts = (
        prop::option::weighted(0.95, version),
        part(id.boxed()),
        part(method().boxed()),
        part(params.boxed()),
        prop::option::weighted(0.1, json_value()),
        prop::option::weighted(0.1, json_value()),
    );
    parts.prop_map(|(version, id, method, params, result, error)| {
        let mut message = serde_json::Map::new();
        for (name, part) in [
            ("jsonrpc", version),
            ("id", id),
            ("method", method),
            ("params", params),
            ("result", result),
            ("error", error),
        ] {
            if let Some(part) = part {
                message.insert(name.to_owned(), part);
            }
        }
        Value::Object(message).to_string().into_bytes()
    })
}

proptest! {
    // Each case is two servers and many lines.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_end_the_server(lines in prop::collection::vec(any::<Vec<u8>>(), 1..40)) {
        survives(&lines);
    }

    #[test]
    fn arbitrary_messages_never_end_the_server(lines in prop::collection::vec(message(), 1..40)) {
        survives(&lines);
    }

    #[test]
    fn messages_that_are_cut_or_bent_never_end_the_server(
        lines in prop::collection::vec((message(), any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let bent: Vec<Vec<u8>> = lines
            .into_iter()
            .map(|(mut line, at, byte)| {
                let at = at.index(line.len());
                if byte % 2 == 0 {
                    line.truncate(at);
                } else {
                    line[at] = byte;
                }
                line
            })
            .collect();
        survives(&bent);
    }
}
