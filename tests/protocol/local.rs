//! Files of the user's own machine: beneath the folders that the operator opened, and nowhere else.

use std::fs;

use belljar::artifact::Access;
use serde_json::json;

use crate::harness::{Setup, World};

#[tokio::test]
async fn without_an_allowed_folder_no_local_file_is_touched() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let upload = json!({"path": "a", "local_path": secret});
    let refused = world.tool("upload_file", upload).await;
    assert!(
        refused.error().contains("--allow-dir DIR"),
        "{}",
        refused.error()
    );
    let run = world.run("file f x").await;
    let target = folder.path().join("new");
    let save = json!({"artifact_id": run.ok()["artifacts"][0]["artifact_id"], "save_to": target});
    let refused = world.tool("fetch_artifact", save).await;
    assert!(
        refused.error().contains("--allow-dir-rw DIR"),
        "{}",
        refused.error()
    );
    assert!(!target.exists());
}

#[tokio::test]
async fn a_local_file_is_read_beneath_an_allowed_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.txt"), "from disk").unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
    let world = Setup::new()
        .folder(folder.path(), Access::Read)
        .start()
        .await;
    for local in [folder.path().join("in.txt"), "in.txt".into()] {
        let upload = json!({"path": "a.txt", "local_path": local});
        let uploaded = world.tool("upload_file", upload).await;
        let files = json!({"files": [{"path": "a.txt", "file_id": uploaded.ok()["file_id"]}]});
        let run = world.run_with("show a.txt", files).await;
        assert_eq!(run.ok()["stdout"]["text"], "from disk");
    }
    let session = world.open(json!({})).await;
    let upload = json!({"path": "a.txt", "local_path": "in.txt", "session": session});
    let uploaded = world.tool("upload_file", upload).await;
    assert_eq!(uploaded.ok()["bytes"], 9);
    let run = world
        .run_with("show a.txt", json!({"session": session}))
        .await;
    assert_eq!(run.ok()["stdout"]["text"], "from disk");
    for local in [
        outside.path().join("secret"),
        folder.path().join("link"),
        folder.path().join("../secret"),
        folder.path().to_owned(),
        folder.path().join("none"),
        "/dev/zero".into(),
        "".into(),
    ] {
        let upload = json!({"path": "a.txt", "local_path": local});
        let refused = world.tool("upload_file", upload).await;
        assert!(!refused.error().is_empty(), "{}", local.display());
    }
    // Opened for reading, it is not written.
    let run = world.run("file f x").await;
    let save = json!({"artifact_id": run.ok()["artifacts"][0]["artifact_id"], "save_to": "new"});
    world.tool("fetch_artifact", save).await.error();
    assert!(!folder.path().join("new").exists());
}

#[tokio::test]
async fn an_artifact_is_saved_whole_and_overwrites_only_when_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let world = Setup::new()
        .folder(folder.path(), Access::ReadWrite)
        .start()
        .await;
    let target = folder.path().join("out.bin");
    let session = world.open(json!({})).await;
    for (content, more, saved) in [
        ("first", json!({}), true),
        ("second", json!({}), false),
        ("second", json!({"overwrite": false}), false),
        ("third", json!({"overwrite": true}), true),
    ] {
        let before = fs::read_to_string(&target).ok();
        let upload = json!({"session": session, "path": "f", "text": content});
        world.tool("upload_file", upload).await.ok();
        let save = json!({"session": session, "path": "f", "save_to": target});
        let answer = world
            .tool("fetch_artifact", crate::harness::merged(save, more))
            .await;
        let now = fs::read_to_string(&target).ok();
        if saved {
            assert_eq!(answer.ok()["encoding"], "saved");
            assert_eq!(answer.ok()["saved_to"], target.to_str().unwrap());
            assert!(answer.ok().get("text").is_none());
            assert_eq!(now.as_deref(), Some(content));
        } else {
            assert!(
                answer.error().contains("pass overwrite"),
                "{}",
                answer.error()
            );
            assert_eq!(now, before);
        }
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing partial"
        );
    }
    for outside in ["../out", "/tmp/belljar-test-never", "none/such", ""] {
        let save = json!({"session": session, "path": "f", "save_to": outside});
        world.tool("fetch_artifact", save).await.error();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
