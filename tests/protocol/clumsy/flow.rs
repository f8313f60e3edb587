//! Messages that are well formed and come at the wrong time, twice, or after the client has gone.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::{Raw, hello, request, run, take_back};
use crate::{
    client::Era,
    harness::{Setup, until},
};
use belljar::audit::Logs;

/// The lines of one action in the log of a server's state directory.
fn recorded(raw: &Raw, action: &str) -> Vec<Value> {
    let lines = Logs::open(raw.parts.2.path().join("audit")).tail(usize::MAX);
    let lines = lines.unwrap().into_iter();
    let values = lines.map(|line| serde_json::to_value(line).unwrap());
    values.filter(|line| line["action"] == action).collect()
}

async fn until_recorded(raw: &Raw, action: &str, count: usize) {
    let what = format!("{count} lines of {action}");
    until(&what, || recorded(raw, action).len() >= count).await;
}

#[tokio::test]
async fn a_request_whose_id_is_taken_is_refused_and_the_first_goes_on() {
    let mut raw = Raw::new().await;
    raw.run(7, "sleep 300\nout first").await;
    until_recorded(&raw, "begin_run", 1).await;
    raw.run(7, "out second").await;
    let refused = raw.next().await;
    assert_eq!(refused["id"], json!(null), "the id is the first one's");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    // A text and a number are two ids.
    raw.ask("7", "ping", json!({})).await;
    assert_eq!(raw.next().await["id"], "7");
    let first = raw.next().await;
    assert_eq!(first["id"], 7);
    let run = &first["result"]["structuredContent"];
    assert_eq!(run["stdout"]["text"], "first\n", "{first}");
    raw.run(7, "out again").await;
    assert_eq!(raw.next().await["id"], 7, "it is free again");
    assert_eq!(recorded(&raw, "begin_run").len(), 2);
    raw.pings().await;
}

#[tokio::test]
async fn what_is_not_under_way_can_be_taken_back_without_effect() {
    let mut raw = Raw::new().await;
    for id in [
        json!(1),
        json!("none"),
        json!(null),
        json!(1.5),
        json!({}),
        json!("x".repeat(1 << 20)),
    ] {
        raw.say(&take_back(&id)).await;
    }
    raw.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}))
        .await;
    raw.pings().await;
    // Before it starts, and in the same breath.
    raw.say(&take_back(&json!(2))).await;
    raw.run(2, "out begun after it was taken back").await;
    assert_eq!(raw.next().await["id"], 2);
    // After its end, and twice.
    raw.say(&take_back(&json!(2))).await;
    raw.run(3, "hang").await;
    until_recorded(&raw, "begin_run", 2).await;
    raw.say(&take_back(&json!(3))).await;
    raw.say(&take_back(&json!(3))).await;
    until_recorded(&raw, "run_code", 2).await;
    assert_eq!(
        recorded(&raw, "run_code")[1]["outcome"]["status"],
        "cancelled"
    );
    raw.say(&take_back(&json!(3))).await;
    raw.pings().await;
}

#[tokio::test]
async fn an_id_that_was_taken_back_can_be_used_again_and_is_answered_once() {
    let mut raw = Raw::new().await;
    for round in 1..=3 {
        raw.run(9, "hang").await;
        until_recorded(&raw, "begin_run", round).await;
        raw.say(&take_back(&json!(9))).await;
        until_recorded(&raw, "run_code", round).await;
    }
    // The last step of a handler's end comes after its record.
    let answer = loop {
        raw.ask(9, "ping", json!({})).await;
        let answer = raw.next().await;
        if answer["id"] == 9 {
            break answer;
        }
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
    };
    assert!(answer["result"].is_object());
    raw.pings().await;
}

#[tokio::test]
async fn requests_that_are_taken_back_at_once_never_run_on() {
    let mut raw = Raw::new().await;
    for id in 0..50 {
        raw.run(id, "hang").await;
        raw.say(&take_back(&json!(id))).await;
    }
    raw.pings().await;
    let daemon = raw.parts.1.clone();
    until_recorded(&raw, "run_code", 50).await;
    until("nothing is left", || daemon.containers().is_empty()).await;
    raw.pings().await;
}

#[tokio::test]
async fn what_needs_no_answer_gets_none_and_does_no_harm() {
    let mut raw = Raw::new().await;
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "never", "result": {"tools": []}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "id": null, "error": "x"}),
        json!({"jsonrpc": "2.0", "result": 1}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 2}}),
        json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        json!({"jsonrpc": "2.0", "method": "no/such", "params": {"a": 1}}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "run_code"}}),
        json!({"jsonrpc": "2.0", "method": ""}),
    ] {
        raw.say(&message).await;
        raw.pings().await;
    }
    // With an id it is a request, whatever it is called.
    raw.ask(4, "notifications/initialized", json!({})).await;
    raw.fault(-32601, &json!(4)).await;
    raw.say(&hello(5)).await;
    assert_eq!(raw.next().await["id"], 5, "a second greeting is answered");
    raw.pings().await;
}

#[tokio::test]
async fn nothing_that_comes_before_the_greeting_ends_the_server() {
    let mut raw = Raw::silent();
    for silent in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "method": "no/such"}),
    ] {
        raw.say(&silent).await;
        raw.ask("ping", "ping", json!({})).await;
        assert_eq!(raw.next().await["id"], "ping", "{silent}");
    }
    for early in [
        request(1, "tools/list", json!({})),
        run(1, "out x"),
        request(1, "no/such", json!({})),
        request(1, "initialize", json!({"protocolVersion": 7})),
        json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}),
    ] {
        raw.say(&early).await;
        let answer = raw.next().await;
        assert_eq!(answer["id"], 1, "{answer}");
        assert!(answer["error"]["code"].is_i64(), "{early}: {answer}");
        raw.say(&take_back(&json!(1))).await;
    }
    raw.line("no JSON").await;
    raw.fault(-32700, &json!(null)).await;
    raw.greet().await;
    raw.run(8, "out served").await;
    let answer = raw.next().await;
    assert_eq!(answer["result"]["structuredContent"]["status"], "exited");
}

#[tokio::test]
async fn a_client_of_2026_can_take_back_what_it_began_first() {
    let world = Setup::new().era(Era::Modern).start().await;
    let call = world.begin_run("hang", json!({})).await;
    world.until_begun(0).await;
    world.cancel(&call).await;
    world.until_empty().await;
    until("its end is recorded", || {
        !world.lines("run_code").is_empty()
    })
    .await;
    assert_eq!(world.lines("run_code")[0]["outcome"]["status"], "cancelled");
    assert!(!call.is_answered());
}

#[tokio::test]
async fn a_call_that_ends_soon_after_the_input_is_answered() {
    let mut raw = Raw::new().await;
    raw.run(1, "sleep 200\nout done").await;
    until_recorded(&raw, "begin_run", 1).await;
    raw.write.shutdown().await.unwrap();
    let answer = raw.next().await;
    let run = &answer["result"]["structuredContent"];
    assert_eq!(run["stdout"]["text"], "done\n", "{answer}");
    assert_eq!(raw.next_or_end().await, None);
    Raw::ended(raw.parts.3).await;
    raw.parts.0.stop().await;
    assert_eq!(raw.parts.1.containers().len(), 0);
}

#[tokio::test]
async fn a_client_that_can_be_told_nothing_more_ends_the_server_and_its_runs() {
    let mut raw = Raw::new().await;
    raw.run(1, "out before\nhang").await;
    until_recorded(&raw, "begin_run", 1).await;
    raw.ask(2, "ping", json!({})).await;
    let state = raw.parts.2.clone();
    let (broker, daemon, _, served, _) = raw.parts;
    // Both ends at once, as when the process is gone.
    drop((raw.write, raw.read));
    tokio::time::pause();
    Raw::ended(served).await;
    tokio::time::resume();
    broker.stop().await;
    assert_eq!(daemon.containers().len(), 0);
    let lines = Logs::open(state.path().join("audit")).tail(usize::MAX);
    let lines = serde_json::to_value(lines.unwrap()).unwrap().to_string();
    assert!(
        lines.contains("\"cancelled\""),
        "its end is on record: {lines}"
    );
}

#[tokio::test]
async fn closing_a_session_twice_is_an_error_and_no_more() {
    let world = Setup::new().start().await;
    let session = world.open(json!({})).await;
    let close = json!({"session": session});
    world.tool("close_session", close.clone()).await.ok();
    let again = world.tool("close_session", close.clone()).await;
    assert!(again.error().contains("session"), "{}", again.error());
    let other = world.open(json!({})).await;
    let close = json!({"session": other});
    let (one, two) = tokio::join!(
        world.tool("close_session", close.clone()),
        world.tool("close_session", close)
    );
    let closed = [&one, &two]
        .iter()
        .filter(|it| it.refusal().is_none())
        .count();
    assert_eq!(closed, 1, "{one:?} {two:?}");
    world.until_empty().await;
    world.works().await;
}
