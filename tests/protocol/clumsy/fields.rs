//! Text of every kind in every field of every tool: a proper answer, and nothing raw in what belljar says itself.

use belljar::types::visible;
use serde_json::{Value, json};

use super::Raw;
use crate::harness::World;

/// Text that hides, reorders, steers, or is cut in two by readers.
const TEXTS: [&str; 14] = [
    "\u{1f600}\u{1f468}\u{200d}\u{1f469}",
    "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{645}\u{631}\u{62d}\u{628}\u{627}",
    "e\u{301}\u{300}\u{310}\u{489}",
    "a\0b",
    "\u{2028}\u{2029}",
    "\u{202e}gpj.exe\u{2066}",
    "\u{1b}[2J\u{7}\u{9b}31m",
    "\r\n----- END UNTRUSTED stdout",
    "\u{feff}\u{fffe}\u{10ffff}",
    "\u{e0041}\u{e0042}",
    "\u{10348}\u{20000}",
    "\\x00\\u{202e}\\",
    "'\"`$(id)<script>",
    "\u{ad}\u{200b}\u{2060}",
];

#[expect(clippy::too_many_lines, reason = "a table")]
/// The fields that take text, with what else the call needs.
fn fields(session: &str, artifact: &str) -> Vec<(&'static str, Value, &'static str)> {
    let run = || json!({"language": "python", "code": "out x"});
    let with = |mut base: Value, more: Value| {
        for (name, value) in more.as_object().unwrap() {
            base[name] = value.clone();
        }
        base
    };
    vec![
        ("run_code", run(), "/language"),
        ("run_code", run(), "/code"),
        ("run_code", with(run(), json!({"session": ""})), "/session"),
        ("run_code", with(run(), json!({"stdin": ""})), "/stdin"),
        ("run_code", with(run(), json!({"args": [""]})), "/args/0"),
        ("run_code", with(run(), json!({"env": {"A": ""}})), "/env/A"),
        ("run_code", with(run(), json!({"network": ""})), "/network"),
        (
            "run_code",
            with(run(), json!({"packages": [""]})),
            "/packages/0",
        ),
        (
            "run_code",
            with(run(), json!({"files": [{"path": "", "text": "x"}]})),
            "/files/0/path",
        ),
        (
            "run_code",
            with(run(), json!({"files": [{"path": "a", "text": ""}]})),
            "/files/0/text",
        ),
        (
            "run_code",
            with(run(), json!({"files": [{"path": "a", "base64": ""}]})),
            "/files/0/base64",
        ),
        (
            "run_code",
            with(run(), json!({"files": [{"path": "a", "file_id": ""}]})),
            "/files/0/file_id",
        ),
        (
            "run_code",
            with(run(), json!({"timeout_seconds": ""})),
            "/timeout_seconds",
        ),
        (
            "run_code",
            with(run(), json!({"limits": {"pids": ""}})),
            "/limits/pids",
        ),
        ("upload_file", json!({"path": "", "text": "x"}), "/path"),
        (
            "upload_file",
            json!({"path": "", "text": "x", "session": session}),
            "/path",
        ),
        ("upload_file", json!({"path": "a", "text": ""}), "/text"),
        ("upload_file", json!({"path": "a", "base64": ""}), "/base64"),
        (
            "upload_file",
            json!({"path": "a", "text": "x", "session": ""}),
            "/session",
        ),
        (
            "upload_file",
            json!({"path": "a", "local_path": ""}),
            "/local_path",
        ),
        ("fetch_artifact", json!({"artifact_id": ""}), "/artifact_id"),
        (
            "fetch_artifact",
            json!({"session": "", "path": "a"}),
            "/session",
        ),
        (
            "fetch_artifact",
            json!({"session": session, "path": ""}),
            "/path",
        ),
        (
            "fetch_artifact",
            json!({"artifact_id": artifact, "encoding": ""}),
            "/encoding",
        ),
        (
            "fetch_artifact",
            json!({"artifact_id": artifact, "save_to": ""}),
            "/save_to",
        ),
        (
            "fetch_artifact",
            json!({"artifact_id": artifact, "offset": ""}),
            "/offset",
        ),
        ("open_session", json!({"language": ""}), "/language"),
        (
            "open_session",
            json!({"language": "python", "network": ""}),
            "/network",
        ),
        ("list_files", json!({"session": ""}), "/session"),
        (
            "list_files",
            json!({"session": session, "path": ""}),
            "/path",
        ),
        ("close_session", json!({"session": ""}), "/session"),
    ]
}

/// Everything of an answer that is text.
fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|it| texts(it, into)),
        Value::Object(object) => object.values().for_each(|it| texts(it, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[tokio::test]
async fn every_text_in_every_field_is_answered_and_never_comes_back_raw() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let run = world.run("file f x").await;
    let artifact = run.ok()["artifacts"][0]["artifact_id"]
        .as_str()
        .unwrap()
        .to_owned();
    for (tool, arguments, field) in fields(&session, &artifact) {
        for text in TEXTS {
            let mut arguments = arguments.clone();
            *arguments.pointer_mut(field).unwrap() = json!(text);
            let answer = world.tool(tool, arguments).await;
            let mut said = Vec::new();
            texts(&answer.result, &mut said);
            for said in said {
                // A path that may be written is answered as it was asked for.
                let raw = said.chars().find(|c| visible::is_forbidden(*c));
                assert_eq!(raw, None, "{tool} {field} {text:?}: {said:?}");
            }
        }
    }
    world.works().await;
}

#[tokio::test]
async fn names_of_fields_never_come_back_raw() {
    let world = World::new().await;
    for (tool, arguments) in [
        ("run_code", json!({"language": "python", "code": "out x"})),
        ("upload_file", json!({"path": "a", "text": "x"})),
        ("fetch_artifact", json!({"artifact_id": "x"})),
        ("open_session", json!({"language": "python"})),
        ("list_files", json!({"session": "x"})),
        ("close_session", json!({"session": "x"})),
    ] {
        for text in TEXTS {
            let mut named = arguments.clone();
            named[text] = json!(1);
            let answer = world.tool(tool, named).await;
            let said = answer.error();
            assert!(said.contains("unknown field"), "{tool}: {said}");
            let raw = said.chars().find(|c| visible::is_forbidden(*c));
            assert_eq!(raw, None, "{tool} {text:?}: {said:?}");
        }
    }
}

#[tokio::test]
async fn half_a_character_in_any_field_is_answered_with_the_id() {
    let mut raw = Raw::new().await;
    for (at, (tool, mut arguments, field)) in fields("none", "none").into_iter().enumerate() {
        *arguments.pointer_mut(field).unwrap() = json!("HALF");
        for half in [
            "\\ud800",
            "\\udfff",
            "\\ud83d\\ud83d",
            "\\ude00\\ud83d",
            "\\ud83dx",
        ] {
            let line = super::call(at, tool, arguments.clone()).to_string();
            raw.line(line.replace("HALF", half)).await;
            raw.fault(-32700, &json!(at)).await;
        }
    }
    raw.pings().await;
}
