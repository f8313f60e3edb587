//! Lines that are no messages, or larger than any: each is answered, and the next one is served.

use belljar::transport::stdio::MAX_LINE_BYTES;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{MAX_FAULT_BYTES, Raw, call, request};

#[tokio::test]
async fn each_line_that_cannot_be_read_is_answered_and_the_next_one_is_served() {
    let mut raw = Raw::new().await;
    let cases: [(&[u8], i64, Value, &str); 26] = [
        (b"hello", -32700, json!(null), "expected value"),
        (b"{", -32700, json!(null), "EOF"),
        (b"{\"id\":1}}", -32700, json!(1), "trailing"),
        (b"{\"id\":1,}", -32700, json!(1), "trailing comma"),
        (b"{'id':1}", -32700, json!(null), "key must be a string"),
        (b"\0", -32700, json!(null), "expected value"),
        (b"\xff\xfe{\0}\0", -32700, json!(null), "expected value"),
        (
            b"{\"id\":1,\"x\":\"\xc3\x28\"}",
            -32700,
            json!(1),
            "unicode",
        ),
        (
            b"{\"id\":1,\"x\":\"\x01\"}",
            -32700,
            json!(1),
            "control character",
        ),
        (br#"{"id":1,"x":"\ud800"}"#, -32700, json!(1), "hex escape"),
        (br#"{"id":1,"x":"\udfff"}"#, -32700, json!(1), "surrogate"),
        (br#"{"id":"\ud800"}"#, -32700, json!(null), "hex escape"),
        (br#"{"id":1,"x":1e999}"#, -32700, json!(1), "out of range"),
        (br#"{"id":1,"x":NaN}"#, -32700, json!(1), "expected"),
        (br#"{"id":1,"id":2}"#, -32600, json!(null), "twice"),
        (br#"{"id":1,"a":{"b":1,"b":2}}"#, -32600, json!(1), "twice"),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            -32600,
            json!(null),
            "batches",
        ),
        (b"[]", -32600, json!(null), "batches"),
        (b"7", -32600, json!(null), "object"),
        (br#""ping""#, -32600, json!(null), "object"),
        (b"{}", -32600, json!(null), "jsonrpc"),
        (br#"{"id":1,"method":"ping"}"#, -32600, json!(1), "jsonrpc"),
        (br#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1), "`method`"),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":null}"#,
            -32600,
            json!(1),
            "`method`",
        ),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}"#,
            -32600,
            json!(1),
            "either",
        ),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            -32602,
            json!(1),
            "object",
        ),
    ];
    for (line, code, id, words) in cases {
        raw.line(line).await;
        let message = raw.fault(code, &id).await;
        let shown = String::from_utf8_lossy(line);
        assert!(message.contains(words), "{shown}: {message}");
        raw.pings().await;
    }
}

#[tokio::test]
async fn what_surrounds_a_message_does_not_matter() {
    let mut raw = Raw::new().await;
    let ping = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}).to_string();
    for line in [
        format!("\u{feff}{ping}"),
        format!("{ping}\r"),
        format!("\t {ping} \t\r"),
        format!("\n\r\n \n{ping}"),
    ] {
        raw.line(line).await;
        let answer = raw.next().await;
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    }
}

#[tokio::test]
async fn the_last_line_needs_no_end() {
    let mut raw = Raw::new().await;
    let ping = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"});
    raw.write
        .write_all(ping.to_string().as_bytes())
        .await
        .unwrap();
    raw.write.shutdown().await.unwrap();
    assert_eq!(raw.next().await["id"], 5);
    assert_eq!(raw.next_or_end().await, None);
    Raw::ended(raw.parts.3).await;
    let mut raw = Raw::silent();
    raw.write.write_all(b"{\"id\":3,").await.unwrap();
    raw.write.shutdown().await.unwrap();
    raw.fault(-32700, &json!(3)).await;
    assert_eq!(raw.next_or_end().await, None, "and the server has ended");
}

#[tokio::test]
async fn a_line_past_the_bound_is_passed_over_and_answered_with_its_id() {
    let mut raw = Raw::new().await;
    raw.write.write_all(b"{\"params\":\"").await.unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..=MAX_LINE_BYTES >> 20 {
        raw.write.write_all(&piece).await.unwrap();
    }
    raw.line("\",\"jsonrpc\":\"2.0\",\"id\":\"large\",\"method\":\"ping\"}")
        .await;
    let message = raw.fault(-32600, &json!("large")).await;
    assert!(message.contains(&MAX_LINE_BYTES.to_string()), "{message}");
    raw.pings().await;
}

#[tokio::test]
async fn large_lines_within_the_bound_are_read() {
    let mut raw = Raw::new().await;
    // Standard input of eight mebibytes, each byte escaped.
    let stdin = "\\u0001".repeat(8 << 20);
    let line = call(
        1,
        "run_code",
        json!({"language": "python", "code": "cat", "stdin": "STDIN"}),
    )
    .to_string()
    .replace("STDIN", &stdin);
    raw.line(line).await;
    let answer = raw.next().await;
    let run = &answer["result"]["structuredContent"];
    assert_eq!(run["status"], "exited", "{answer:.500}");
    assert_eq!(run["stdout"]["bytes"], 8 << 20);
    // What no call may hold is told its own bound.
    let text = "x".repeat(17 << 20);
    raw.say(&call(2, "upload_file", json!({"path": "a", "text": text})))
        .await;
    let answer = raw.next().await;
    assert_eq!(answer["result"]["isError"], true, "{answer:.500}");
    assert!(answer.to_string().contains("at most 10485760"), "{answer}");
    let text = "x".repeat(60 << 20);
    raw.say(&call(3, "upload_file", json!({"path": "a", "text": text})))
        .await;
    let message = raw.fault(-32600, &json!(3)).await;
    assert!(message.contains("several calls"), "{message}");
    raw.pings().await;
}

#[tokio::test]
async fn nesting_of_any_depth_is_answered() {
    let mut raw = Raw::new().await;
    for deep in [10, 50, 64, 65, 128, 1000, 5000, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = open.repeat(deep) + "1" + &close.repeat(deep);
            let line = call(
                deep,
                "run_code",
                json!({"language": "python", "code": "DEEP"}),
            )
            .to_string()
            .replace("\"DEEP\"", &nested);
            raw.line(line).await;
            let answer = raw.next().await;
            assert_eq!(answer["id"], deep, "{answer}");
            assert!(
                answer["result"]["isError"] == true || answer["error"]["code"] == -32600,
                "{answer}"
            );
            assert!(answer.to_string().len() < MAX_FAULT_BYTES);
            raw.pings().await;
        }
    }
}

#[tokio::test]
async fn ids_and_names_of_any_size_are_answered_briefly() {
    let mut raw = Raw::new().await;
    for (id, code, echo) in [
        (json!("x".repeat(1 << 20)), -32600, json!(null)),
        (json!("x".repeat(257)), -32600, json!(null)),
        (json!(u64::MAX), -32600, json!(u64::MAX)),
        (json!(1.5), -32600, json!(null)),
        (json!(null), -32600, json!(null)),
        (json!([1]), -32600, json!(null)),
        (json!({"a": 1}), -32600, json!(null)),
        (json!(true), -32600, json!(null)),
    ] {
        raw.ask(id, "ping", json!({})).await;
        raw.fault(code, &echo).await;
    }
    for id in [
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("x".repeat(256)),
        json!("\u{202e}\u{0}\u{1f600}\u{2028}\"\\"),
        json!("7"),
        json!(7),
    ] {
        raw.ask(id.clone(), "ping", json!({})).await;
        let answer = raw.next().await;
        assert_eq!(answer["id"], id, "an id comes back as it is");
        assert!(answer["result"].is_object());
    }
    let nasty = "\u{202e}\u{1b}[2J<system>".repeat(100_000);
    for (message, code) in [
        (request(1, &nasty, json!({})), -32601),
        (request(1, "\n\r\u{7f}", json!({})), -32601),
        (call(1, &nasty, json!({})), -32602),
        (request(1, "resources/read", json!({"uri": nasty})), -32002),
        (
            request(1, "resources/list", json!({"cursor": nasty})),
            -32602,
        ),
        (request(1, "tools/call", json!({"name": [&nasty]})), -32602),
        (
            request(1, "initialize", json!({"protocolVersion": [&nasty]})),
            -32602,
        ),
        (json!({"jsonrpc": nasty, "id": 1, "method": "ping"}), -32600),
    ] {
        raw.say(&message).await;
        let text = raw.fault(code, &json!(1)).await;
        let raw_left = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!text.contains(raw_left), "{text}");
        assert!(text.len() < 1000, "{text}");
    }
    raw.pings().await;
}

#[tokio::test]
async fn numbers_of_any_kind_are_answered() {
    let mut raw = Raw::new().await;
    for (number, good) in [
        ("5", true),
        ("5.0", true),
        ("5e0", true),
        ("-0", false),
        ("-0.0", false),
        ("1e308", false),
        ("1e-400", false),
        ("99999999999999999999999999", false),
        ("18446744073709551616", false),
        ("0.00000000000000000000001", false),
    ] {
        let line = call(
            number,
            "run_code",
            json!({"language": "python", "code": "out x", "timeout_seconds": "N"}),
        )
        .to_string()
        .replace("\"N\"", number);
        raw.line(line).await;
        let answer = raw.next().await;
        assert_eq!(answer["id"], number, "{answer}");
        assert_eq!(answer["result"]["isError"], !good, "{number}: {answer}");
    }
}
