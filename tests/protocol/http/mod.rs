//! The server over HTTP: who gets in, what both eras of clients see, and what one caller sees of another.

mod clumsy;
mod wire;

use std::time::Duration;

use belljar::artifact::Access;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use self::wire::Http;
use crate::{
    client::{Era, PATIENCE},
    harness::{Setup, World, until},
};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn ping() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

#[tokio::test]
async fn without_the_token_nothing_of_a_request_is_looked_at() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let right = http.bearer();
    let wrong = format!("Bearer {}", "0".repeat(64));
    for (start, host) in [
        ("POST /mcp", "127.0.0.1"),
        ("GET /mcp", "127.0.0.1"),
        ("DELETE /mcp", "127.0.0.1"),
        ("OPTIONS /mcp", "127.0.0.1"),
        ("POST /", "127.0.0.1"),
        ("GET /.well-known/oauth-protected-resource", "127.0.0.1"),
        ("POST /mcp", "attacker.example"),
    ] {
        for body in ["", "{}", "not json"] {
            for shown in [
                vec![],
                vec![("Authorization", wrong.as_str())],
                vec![("Authorization", "Basic dXNlcjpwYXNz")],
                vec![("Authorization", &right), ("Authorization", &right)],
                vec![("X-Authorization", &right)],
            ] {
                let mut head = vec![("Host", host)];
                head.extend(&shown);
                let reply = http.send(start, &head, body).await;
                assert_eq!(reply.status, 401, "{start} {host} {shown:?}");
                assert_eq!(reply.header("www-authenticate"), Some("bearer"));
                assert!(!reply.body.contains(http.token.expose()));
            }
        }
    }
    assert_eq!(world.created(), 0);
}

#[tokio::test]
async fn a_page_from_elsewhere_is_kept_out_even_with_the_token() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let bearer = http.bearer();
    let here = http.addr.to_string();
    let head = |host: &'static str| [("Host", host), ("Authorization", bearer.as_str())];
    for host in [
        "attacker.example",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example:80",
        "192.168.0.1",
        "0.0.0.0",
    ] {
        let reply = http.send("POST /mcp", &head(host), "{}").await;
        assert_eq!(reply.status, 403, "{host}: {reply:?}");
    }
    for origin in [
        "https://attacker.example",
        "http://127.0.0.1.attacker.example",
        "http://localhost@attacker.example",
        "file://localhost",
        "null",
        "",
        "127.0.0.1",
    ] {
        let reply = http.post(&[("Origin", origin)], &ping()).await;
        assert_eq!(reply.status, 403, "{origin}: {reply:?}");
    }
    for origin in ["http://localhost:6274".to_owned(), format!("http://{here}")] {
        let reply = http.post(&[("Origin", &origin)], &ping()).await;
        assert_ne!(reply.status, 403, "{origin}: {reply:?}");
    }
    let reply = http.send("POST /other", &head("localhost"), "{}").await;
    assert_eq!(reply.status, 404);
}

#[tokio::test]
async fn noise_behind_the_door_is_refused_and_the_server_lives_on() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    for message in [
        json!({}),
        json!([]),
        json!(null),
        json!({"jsonrpc": "2.0", "id": 1}),
    ] {
        let reply = http.post(&[], &message).await;
        assert!((400..500).contains(&reply.status), "{message}: {reply:?}");
    }
    let reply = http.post(&[("Mcp-Session-Id", "no-such")], &ping()).await;
    assert_eq!(reply.status, 404);
    // A body that is too large is not even read to its end.
    let large =
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(4 << 20)}});
    let mut stream = http.begin_post(&[], &large).await;
    let mut start = [0; 12];
    let reading = tokio::time::timeout(PATIENCE, stream.read_exact(&mut start)).await;
    // The rest may be cut off with a reset, before the reply is seen.
    if reading.unwrap().is_ok() {
        assert_eq!(&start, b"HTTP/1.1 413");
    }
    let answer = http
        .client(Era::Modern)
        .await
        .tool("run_code", json!({"language": "bash", "code": "out ok"}))
        .await;
    assert_eq!(answer.ok()["stdout"]["text"], "ok\n");
}

#[tokio::test]
async fn both_eras_run_code_over_http() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    for era in ERAS {
        let client = http.client(era).await;
        let tools = client.request("tools/list", json!({})).await;
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 6);
        let arguments = json!({"language": "python", "code": "out hello\nfile f x"});
        let run = client.tool("run_code", arguments).await;
        assert_eq!(run.ok()["stdout"]["text"], "hello\n", "{era:?}");
        let id = &run.ok()["artifacts"][0]["artifact_id"];
        let fetched = client
            .tool("fetch_artifact", json!({"artifact_id": id}))
            .await;
        assert_eq!(fetched.ok()["text"], "x");
        let uri = run.ok()["artifacts"][0]["uri"].clone();
        let opened = client
            .tool("open_session", json!({"language": "python"}))
            .await;
        let session = &opened.ok()["session"];
        let upload = json!({"path": "a", "text": "kept", "session": session});
        client.tool("upload_file", upload).await.ok();
        // Sessions belong to the token, and not to the connection or the protocol's session.
        let again = http.client(era).await;
        let arguments = json!({"language": "python", "code": "show a", "session": session});
        let run = again.tool("run_code", arguments).await;
        assert_eq!(run.ok()["stdout"]["text"], "kept");
        again
            .tool("close_session", json!({"session": session}))
            .await
            .ok();
        assert!(uri.as_str().unwrap().starts_with("belljar://artifacts/"));
    }
    let recorded = world.lines("run_code");
    assert_eq!(recorded.len(), 4);
    for line in recorded {
        assert_eq!(line["caller"], http.token.caller().to_string());
    }
}

#[tokio::test]
async fn callers_know_nothing_of_each_other() {
    let world = World::new().await;
    let (one, two) = (Http::on(&world).await, Http::on(&world).await);
    let (one, two) = (one.client(Era::Modern).await, two.client(Era::Legacy).await);
    // Each of the three has a session, an upload and an artifact.
    let session = world.open(json!({})).await;
    let local = [
        world
            .tool("upload_file", json!({"path": "a", "text": "x"}))
            .await,
        world.run("file f x").await,
    ];
    let opened = one
        .tool("open_session", json!({"language": "python"}))
        .await;
    let remote = [
        one.tool("upload_file", json!({"path": "a", "text": "x"}))
            .await,
        one.tool(
            "run_code",
            json!({"language": "python", "code": "file f x"}),
        )
        .await,
    ];
    let theirs = [
        (json!(session), &local),
        (opened.ok()["session"].clone(), &remote),
    ];
    let never = "0".repeat(32);
    for (at, (session, [upload, run])) in theirs.iter().enumerate() {
        let artifact = &run.ok()["artifacts"][0]["artifact_id"];
        let run_with = |file: &Value| json!({"language": "python", "code": "out x", "files": [{"path": "a", "file_id": file}]});
        for (tool, asked, unknown) in [
            (
                "list_files",
                json!({"session": session}),
                json!({"session": never}),
            ),
            (
                "close_session",
                json!({"session": session}),
                json!({"session": never}),
            ),
            (
                "run_code",
                json!({"language": "python", "code": "out x", "session": session}),
                json!({"language": "python", "code": "out x", "session": never}),
            ),
            (
                "upload_file",
                json!({"path": "b", "text": "x", "session": session}),
                json!({"path": "b", "text": "x", "session": never}),
            ),
            (
                "fetch_artifact",
                json!({"session": session, "path": "a"}),
                json!({"session": never, "path": "a"}),
            ),
            (
                "fetch_artifact",
                json!({"artifact_id": artifact}),
                json!({"artifact_id": never}),
            ),
            (
                "run_code",
                run_with(&upload.ok()["file_id"]),
                run_with(&json!(never)),
            ),
        ] {
            // The user does not reach what a token holds, and the other way round; nor does another token.
            let (mine, nothing) = if at == 0 {
                (
                    one.tool(tool, asked.clone()).await,
                    one.tool(tool, unknown.clone()).await,
                )
            } else {
                (
                    world.tool(tool, asked.clone()).await,
                    world.tool(tool, unknown.clone()).await,
                )
            };
            let (other, none) = (two.tool(tool, asked).await, two.tool(tool, unknown).await);
            mine.error();
            other.error();
            assert_eq!(mine.result, nothing.result, "{tool}");
            assert_eq!(other.result, none.result, "{tool}");
        }
        let uri = format!("belljar://artifacts/{}", artifact.as_str().unwrap());
        let read = two.request("resources/read", json!({"uri": uri})).await;
        let uri = format!("belljar://artifacts/{never}");
        let unknown = two.request("resources/read", json!({"uri": uri})).await;
        assert!(read["error"].is_object(), "{read}");
        assert_eq!(read["error"]["code"], unknown["error"]["code"]);
    }
    let listed = two.request("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"], json!([]));
    // All of it is still there for its owners.
    world
        .tool("list_files", json!({"session": session}))
        .await
        .ok();
    one.tool("list_files", json!({"session": opened.ok()["session"]}))
        .await
        .ok();
}

#[tokio::test]
async fn local_files_are_out_of_reach_even_in_an_allowed_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.txt"), "from disk").unwrap();
    let world = Setup::new()
        .folder(folder.path(), Access::ReadWrite)
        .start()
        .await;
    let http = Http::on(&world).await;
    let upload = json!({"path": "a", "local_path": folder.path().join("in.txt")});
    world.tool("upload_file", upload.clone()).await.ok();
    for era in ERAS {
        let client = http.client(era).await;
        let refused = client.tool("upload_file", upload.clone()).await;
        assert!(refused.error().contains("standard input and output"));
        let run = client
            .tool(
                "run_code",
                json!({"language": "python", "code": "file f x"}),
            )
            .await;
        let target = folder.path().join("out");
        let save =
            json!({"artifact_id": run.ok()["artifacts"][0]["artifact_id"], "save_to": target});
        let refused = client.tool("fetch_artifact", save).await;
        assert!(refused.error().contains("standard input and output"));
        assert!(!target.exists());
    }
    let denied = world.lines("upload_file").pop().unwrap();
    assert_eq!(denied["decision"]["reason"], "local_file_from_afar");
}

#[tokio::test]
async fn a_client_of_2026_that_hangs_up_ends_its_run() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let client = http.client(Era::Modern).await;
    let call = client.begin_run("out before\nhang").await;
    world.until_begun(0).await;
    drop(call);
    let recorded = || !world.lines("run_code").is_empty();
    until("its end is recorded", recorded).await;
    assert_eq!(world.lines("run_code")[0]["outcome"]["status"], "cancelled");
    world.until_empty().await;
}

#[tokio::test]
async fn a_client_of_2025_that_hangs_up_does_not_end_its_run() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let client = http.client(Era::Legacy).await;
    let call = client.begin_run("sleep 300\nfile f x").await;
    world.until_begun(0).await;
    drop(call);
    let recorded = || !world.lines("run_code").is_empty();
    until("its end is recorded", recorded).await;
    assert_eq!(world.lines("run_code")[0]["outcome"]["status"], "exited");
    let listed = client.request("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_stop_ends_open_connections_and_leaves_no_container() {
    let world = World::new().await;
    let http = Http::on(&world).await;
    let mut calls = Vec::new();
    for (at, era) in ERAS.into_iter().enumerate() {
        let client = http.client(era).await;
        client
            .tool("open_session", json!({"language": "python"}))
            .await
            .ok();
        calls.push(client.begin_run("hang").await);
        world.until_begun(at).await;
    }
    // One that never says anything.
    let silent = tokio::net::TcpStream::connect(http.addr).await.unwrap();
    http.stop.cancel();
    tokio::time::timeout(Duration::from_secs(30), http.served)
        .await
        .unwrap()
        .unwrap();
    world.broker.stop().await;
    assert_eq!(world.daemon.containers().len(), 0);
    assert!(tokio::net::TcpStream::connect(http.addr).await.is_err());
    drop((calls, silent));
}
