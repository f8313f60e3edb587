//! `fetch_artifact`: pieces that make up the whole, whatever they are cut through.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::harness::{Setup, World, merged};

/// A file in a session.
async fn file(world: &World, bytes: &[u8]) -> Value {
    let session = world.open(json!({})).await;
    let base64 = BASE64_STANDARD.encode(bytes);
    let arguments = json!({"session": session, "path": "f", "base64": base64});
    world.tool("upload_file", arguments).await.ok();
    json!({"session": session, "path": "f"})
}

/// Fetches all of it, piece by piece; the bytes and the number of pieces.
async fn whole(world: &World, source: &Value, more: Value) -> (Vec<u8>, usize) {
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    loop {
        let arguments = merged(source.clone(), more.clone());
        let arguments = merged(arguments, json!({"offset": bytes.len()}));
        let fetched = world.tool("fetch_artifact", arguments).await;
        let piece = fetched.ok();
        assert_eq!(piece["offset"], bytes.len());
        let content = match piece["encoding"].as_str().unwrap() {
            "text" => piece["text"].as_str().unwrap().as_bytes().to_vec(),
            "base64" => BASE64_STANDARD
                .decode(piece["base64"].as_str().unwrap())
                .unwrap(),
            other => panic!("{other}"),
        };
        pieces += 1;
        bytes.extend_from_slice(&content);
        if piece["encoding"] == "base64" || piece["escaped"] == 0 {
            assert_eq!(piece["length"], content.len());
        }
        let next = format!("go on at offset {}", bytes.len());
        if piece["eof"] == true {
            assert!(!fetched.text().contains("go on at"));
            return (bytes, pieces);
        }
        assert!(fetched.text().contains(&next), "{}", fetched.text());
        assert!(pieces < 1000, "it never ends");
    }
}

#[tokio::test]
async fn pieces_cut_through_characters_make_up_the_whole() {
    let world = World::new().await;
    let text = "aé世🦀\n".repeat(8);
    let source = file(&world, text.as_bytes()).await;
    for length in [1, 2, 3, 4, 5, 7, 50] {
        let (bytes, pieces) = whole(&world, &source, json!({"length": length})).await;
        assert_eq!(bytes, text.as_bytes(), "length {length}");
        assert!(pieces > 1);
        let (bytes, _) = whole(
            &world,
            &source,
            json!({"length": length, "encoding": "base64"}),
        )
        .await;
        assert_eq!(bytes, text.as_bytes(), "length {length}, base64");
    }
}

#[tokio::test]
async fn bytes_are_given_as_they_are() {
    let world = World::new().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let source = file(&world, &bytes).await;
    let (fetched, pieces) = whole(&world, &source, json!({})).await;
    assert_eq!(fetched, bytes);
    assert_eq!(pieces, 4, "32 KiB each");
    let as_text = merged(source, json!({"encoding": "text", "length": 3}));
    let as_text = world.tool("fetch_artifact", as_text).await;
    assert_eq!(as_text.ok()["text"], "\\x00\\x01\\x02");
    assert_eq!(as_text.ok()["escaped"], 3);
}

#[tokio::test]
async fn a_piece_is_shortened_and_not_refused() {
    let world = World::new().await;
    let source = file(&world, &vec![b'x'; (4 << 20) + 1]).await;
    let fetched = merged(source.clone(), json!({"length": u64::MAX}));
    let fetched = world.tool("fetch_artifact", fetched).await;
    assert_eq!(fetched.ok()["length"], 4 << 20);
    assert_eq!(fetched.ok()["eof"], false);
    let rest = merged(source, json!({"length": 1u64 << 40, "offset": 4 << 20}));
    let rest = world.tool("fetch_artifact", rest).await;
    assert_eq!(rest.ok()["length"], 1);
    assert_eq!(rest.ok()["eof"], true);
}

#[tokio::test]
async fn the_end_is_told_and_past_it_is_an_error() {
    let world = World::new().await;
    let source = file(&world, b"12345").await;
    let at = |offset: u64| merged(source.clone(), json!({"offset": offset}));
    let end = world.tool("fetch_artifact", at(5)).await;
    assert_eq!(
        (&end.ok()["length"], &end.ok()["eof"]),
        (&json!(0), &json!(true))
    );
    for offset in [6, u64::MAX] {
        let past = world.tool("fetch_artifact", at(offset)).await;
        assert!(
            past.error().contains("the file has 5 bytes"),
            "{}",
            past.error()
        );
    }
    let empty = file(&world, b"").await;
    let empty = world.tool("fetch_artifact", empty).await;
    assert_eq!(
        (&empty.ok()["bytes"], &empty.ok()["eof"]),
        (&json!(0), &json!(true))
    );
    // A length of nothing would make no progress: whoever goes on until the end would go on for ever.
    let none = merged(source, json!({"length": 0}));
    let none = world.tool("fetch_artifact", none).await;
    assert!(none.error().contains("at least 1"), "{}", none.error());
}

#[tokio::test]
async fn all_pieces_of_a_file_are_of_one_content() {
    let world = World::new().await;
    let source = file(&world, b"first content").await;
    let first = world.tool("fetch_artifact", source.clone()).await;
    let id = first.ok()["artifact_id"].clone();
    let again = world.tool("fetch_artifact", source.clone()).await;
    assert_eq!(again.ok()["artifact_id"], id, "not copied again");
    let session = source["session"].as_str().unwrap();
    let run = world
        .run_with("file f second content", json!({"session": session}))
        .await;
    assert_eq!(run.ok()["artifacts"][0]["path"], "f");
    let changed = world.tool("fetch_artifact", source).await;
    assert_eq!(changed.ok()["text"], "second content");
    let kept = world
        .tool("fetch_artifact", json!({"artifact_id": id}))
        .await;
    assert_eq!(kept.ok()["text"], "first content");
    assert_eq!(kept.ok()["sha256"], first.ok()["sha256"]);
}

#[tokio::test]
async fn an_artifact_outlives_its_container_and_its_session() {
    let world = World::new().await;
    let source = file(&world, b"kept").await;
    let fetched = world.tool("fetch_artifact", source.clone()).await;
    let id = fetched.ok()["artifact_id"].clone();
    let session = json!({"session": source["session"]});
    world.tool("close_session", session).await.ok();
    let kept = world
        .tool("fetch_artifact", json!({"artifact_id": id}))
        .await;
    assert_eq!(kept.ok()["text"], "kept");
    let gone = world.tool("fetch_artifact", source).await;
    assert!(gone.error().contains("it was closed"), "{}", gone.error());
    // Another window of the same user reads it too.
    let other = Setup::beside(&world).start().await;
    let kept = other
        .tool("fetch_artifact", json!({"artifact_id": id}))
        .await;
    assert_eq!(kept.ok()["text"], "kept");
}

#[tokio::test]
async fn what_has_expired_says_so() {
    let world = Setup::new().ttl(Duration::from_millis(1)).start().await;
    let run = world.run("file f x").await;
    let id = run.ok()["artifacts"][0]["artifact_id"].clone();
    let upload = world
        .tool("upload_file", json!({"path": "u", "text": "x"}))
        .await;
    let file_id = upload.ok()["file_id"].clone();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let fetched = world
        .tool("fetch_artifact", json!({"artifact_id": id}))
        .await;
    assert!(fetched.error().contains("expired"), "{}", fetched.error());
    let before = world.created();
    let files = json!({"files": [{"path": "u", "file_id": file_id}]});
    let run = world.run_with("show u", files).await;
    assert!(
        run.error().contains("expired: upload the file again"),
        "{}",
        run.error()
    );
    assert_eq!(world.created(), before, "looked up before anything is made");
    let listed = world.client.request("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"], json!([]));
}

#[tokio::test]
async fn calls_that_wait_for_their_session_keep_no_place_from_others() {
    let world = World::new().await;
    let kept = world.run("file a.txt x").await;
    let id = &kept.ok()["artifacts"][0]["artifact_id"];
    let session = world.open(json!({})).await;
    let running = world.begin_run("hang", json!({"session": session})).await;
    world.until_begun(1).await;
    let asked = json!({"session": session, "path": "a.txt"});
    for _ in 0..4 {
        world
            .client
            .begin_tool("fetch_artifact", asked.clone())
            .await;
    }
    let fetched = world.tool("fetch_artifact", json!({"artifact_id": id}));
    assert_eq!(fetched.await.ok()["text"], "x");
    world.cancel(&running).await;
}

#[tokio::test]
async fn a_list_of_long_names_is_shortened_and_says_so() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let folders = vec!["d".repeat(250); 15].join("/");
    let files: Vec<_> = (0..200)
        .map(|at| json!({"path": format!("{folders}/{at}"), "text": "x"}))
        .collect();
    let run = world.run_with("out ok", json!({"session": session, "files": files}));
    run.await.ok();
    let listed = world.tool("list_files", json!({"session": session})).await;
    let entries = listed.ok()["entries"].as_array().unwrap().len();
    assert!((100..150).contains(&entries), "{entries}");
    assert!(listed.ok()["omitted"].as_u64().unwrap() >= 50);
}
