//! Clumsy clients over HTTP: bodies that cannot be read, that never end, ids that are taken, connections that are dropped.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::wire::{Http, reply};
use crate::{
    client::Era,
    harness::{World, until},
};

#[tokio::test]
async fn each_body_that_cannot_be_read_is_told_why() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let deep = format!("{{\"id\":1,\"x\":{}", "[".repeat(100_000));
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}"#;
    for (body, code, id) in [
        ("no JSON", -32700, json!(null)),
        (r#"{"id":1,"x":"\ud800"}"#, -32700, json!(1)),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            -32600,
            json!(null),
        ),
        (twice, -32600, json!(1)),
        (&deep, -32600, json!(1)),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            -32600,
            json!(null),
        ),
    ] {
        let told = reply(http.begin_post_text(&[], body).await).await;
        assert_eq!(told.status, 400, "{body:.80}: {told:?}");
        let told: Value = serde_json::from_str(&told.body).unwrap();
        assert_eq!(told["error"]["code"], code, "{body:.80}: {told}");
        assert_eq!(told["id"], id, "{body:.80}: {told}");
    }
    let client = http.client(Era::Modern).await;
    let run = client.tool("run_code", json!({"language": "bash", "code": "out ok"}));
    run.await.ok();
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let (host, bearer) = (http.addr.to_string(), http.bearer());
    let mut stream = tokio::net::TcpStream::connect(http.addr).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nContent-Type: application/json\r\n\
Accept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::pause();
    let told = reply(stream).await;
    assert_eq!(told.status, 408, "{told:?}");
}

#[tokio::test]
async fn a_request_whose_id_is_taken_in_its_session_is_refused_and_the_first_goes_on() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let client = http.client(Era::Legacy).await;
    let first = client.begin_run("sleep 500\nout first").await;
    world.until_begun(0).await;
    let second = reply(client.begin_run("out second").await).await;
    assert_eq!(second.status, 400, "{second:?}");
    assert!(second.body.contains("is under way"), "{second:?}");
    // The same id in another session is another request.
    let other = http.client(Era::Legacy).await;
    let listed = other.request("tools/list", json!({})).await;
    assert!(listed["result"].is_object());
    let first = reply(first).await.message(7);
    let run = &first["result"]["structuredContent"];
    assert_eq!(run["stdout"]["text"], "first\n", "{first}");
    let listed = client.request("tools/list", json!({})).await;
    assert!(listed["result"].is_object(), "it is free again");
    until("one program ran", || world.lines("begin_run").len() == 1).await;
}

#[tokio::test]
async fn what_requests_hold_is_bounded_over_all_connections_also_where_nobody_waits_for_them() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    // Half a megabyte on the wire, thirty in memory.
    let heavy = vec![0; 220_000];
    let run = |code: &str| {
        let arguments = json!({"language": "python", "code": code});
        json!({"name": "run_code", "arguments": arguments, "_meta": {"heavy": &heavy}})
    };
    let mut under_way = Vec::new();
    for at in 0..3 {
        let client = http.client(Era::Legacy).await;
        let call = client.begin("tools/call", run("hang")).await;
        world.until_begun(at).await;
        drop(call);
        under_way.push(client);
    }
    let client = http.client(Era::Legacy).await;
    let told = reply(client.begin("tools/call", run("out more")).await).await;
    assert_eq!(told.status, 503, "{told:?}");
    let fault: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(
        (&fault["id"], &fault["error"]["code"]),
        (&json!(7), &json!(-32000))
    );
    // What is small still gets in, and so does who takes back.
    let listed = client.request("tools/list", json!({})).await;
    assert!(listed["result"].is_object());
    under_way[0].take_back().await;
    until("it has ended", || world.lines("run_code").len() == 1).await;
    let more = client.request("tools/call", run("out more")).await;
    let more = &more["result"]["structuredContent"];
    assert_eq!(more["stdout"]["text"], "more\n", "{more}");
}
