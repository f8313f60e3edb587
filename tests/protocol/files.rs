//! Uploads and inputs.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use belljar::types::Sha256;
use serde_json::{Value, json};

use crate::harness::World;

#[tokio::test]
async fn an_upload_is_held_for_later_runs() {
    let world = World::new().await;
    let before = world.created();
    let uploaded = world
        .tool(
            "upload_file",
            json!({"path": "data/in.csv", "text": "a,b\n"}),
        )
        .await;
    let held = uploaded.ok();
    assert_eq!(held["path"], "data/in.csv");
    assert_eq!(held["bytes"], 4);
    assert_eq!(held["session"], Value::Null);
    assert_eq!(held["sha256"], Sha256::of(b"a,b\n").to_string());
    assert!(held["expires_at"].as_str().unwrap().ends_with('Z'));
    let id = held["file_id"].as_str().unwrap();
    assert!(uploaded.text().contains(id));
    assert_eq!(world.created(), before, "no container for that");
    for path in ["data/in.csv", "elsewhere.csv"] {
        let more = json!({"files": [{"path": path, "file_id": id}]});
        let run = world.run_with(&format!("show {path}"), more).await;
        assert_eq!(run.ok()["stdout"]["text"], "a,b\n", "{path}");
    }
}

#[tokio::test]
async fn large_inputs_arrive_whole_in_every_form() {
    let world = World::new().await;
    let text: String = (0..300_000).map(|at| format!("{at}\n")).collect();
    let uploaded = world
        .tool("upload_file", json!({"path": "up.txt", "text": text}))
        .await;
    let id = &uploaded.ok()["file_id"];
    let more = json!({
        "files": [
            {"path": "up.txt", "file_id": id},
            {"path": "text.txt", "text": text},
            {"path": "base64.txt", "base64": BASE64_STANDARD.encode(&text)},
        ],
    });
    let answer = world
        .run_with("touch up.txt\ntouch text.txt\ntouch base64.txt", more)
        .await;
    let artifacts = answer.ok()["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 3);
    for artifact in artifacts {
        assert_eq!(artifact["sha256"], uploaded.ok()["sha256"], "{artifact}");
    }
}

#[tokio::test]
async fn an_upload_into_a_session_is_there_and_replaces() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    for content in ["one", "two"] {
        let arguments = json!({"session": session, "path": "a/b.txt", "text": content});
        let written = world.tool("upload_file", arguments).await;
        assert_eq!(written.ok()["file_id"], Value::Null);
        assert_eq!(written.ok()["session"], session.as_str());
        let run = world
            .run_with("show a/b.txt", json!({"session": session}))
            .await;
        assert_eq!(run.ok()["stdout"]["text"], content);
    }
}

#[tokio::test]
async fn into_a_full_workspace_nothing_is_written() {
    let world = World::new().await;
    let session = world.open(json!({"limits": {"workspace_mib": 4}})).await;
    world
        .run_with("file kept x\nfill", json!({"session": session}))
        .await
        .ok();
    let upload = json!({"session": session, "path": "more", "text": "y".repeat(500_000)});
    let refused = world.tool("upload_file", upload).await;
    assert!(
        refused.error().contains("limits.workspace_mib"),
        "{}",
        refused.error()
    );
    let listed = world.tool("list_files", json!({"session": session})).await;
    assert_eq!(listed.ok()["entries"].as_array().unwrap().len(), 1);
    // An input that goes ahead of its run, for it is large.
    let more = json!({"session": session, "files": [{"path": "big", "text": "z".repeat(2 << 20)}]});
    let refused = world.run_with("out not run", more.clone()).await;
    assert!(refused.error().contains("workspace"), "{}", refused.error());
    let again = world
        .run_with("out still here", json!({"session": session}))
        .await;
    assert_eq!(again.ok()["stdout"]["text"], "still here\n");
}

#[tokio::test]
async fn names_are_taken_back_exactly_as_they_are_shown() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let mut shown = [
        "line\\nfeed",
        "esc\\x1b[31m",
        "bidi\\u{202e}txt",
        "back\\\\slash",
        "bytes\\xff\\xfe",
        "tab\\there",
        "plain name",
        "-rf",
        "\u{e9}\u{4e16}",
    ];
    for (at, path) in shown.iter().enumerate() {
        let arguments = json!({"session": session, "path": path, "text": at.to_string()});
        let written = world.tool("upload_file", arguments).await;
        assert_eq!(written.ok()["path"], *path);
    }
    let listed = world.tool("list_files", json!({"session": session})).await;
    let entries = listed.ok()["entries"].as_array().unwrap();
    let mut listed_paths: Vec<_> = entries
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    for path in &listed_paths {
        let arguments = json!({"session": session, "path": path});
        let fetched = world.tool("fetch_artifact", arguments).await;
        assert_eq!(fetched.ok()["path"], *path);
        let at: usize = fetched.ok()["text"].as_str().unwrap().parse().unwrap();
        assert_eq!(shown[at], *path);
    }
    listed_paths.sort_unstable();
    shown.sort_unstable();
    assert_eq!(listed_paths, shown);
    let lines = listed.text().lines().count();
    assert_eq!(
        lines,
        2 + 1 + shown.len() + 1,
        "one line each: {}",
        listed.text()
    );
}

#[tokio::test]
async fn a_list_is_sorted_bounded_and_can_be_narrowed() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let many: String = (0..2100).map(|at| format!("file d/{at:04} x\n")).collect();
    world
        .run_with(
            &format!("{many}file e/1 x\nfile .hidden x"),
            json!({"session": session}),
        )
        .await
        .ok();
    let listed = world.tool("list_files", json!({"session": session})).await;
    let entries = listed.ok()["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2000);
    assert_eq!(listed.ok()["omitted"], 102);
    assert!(listed.text().contains("102 more left out"));
    assert!(entries.is_sorted_by_key(|entry| entry["path"].as_str().unwrap()));
    assert_eq!(entries[0]["path"], ".hidden");
    assert_eq!(entries[0]["kind"], "file");
    assert_eq!(entries[0]["bytes"], 1);
    assert!(
        entries[0]["modified"]
            .as_str()
            .unwrap()
            .starts_with("2023-")
    );
    let narrowed = world
        .tool("list_files", json!({"session": session, "path": "e"}))
        .await;
    assert_eq!(narrowed.ok()["entries"][0]["path"], "e/1");
    assert_eq!(narrowed.ok()["entries"].as_array().unwrap().len(), 1);
}
