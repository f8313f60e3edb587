//! The record: a line for each action before its answer leaves, and nothing done that could not be recorded.

use std::{fs::File, io::PipeReader};

use belljar::{audit::args_digest, engine::fake::Verb, types::Sha256};
use serde_json::{Value, json};

use crate::harness::{Setup, World};

fn names(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["action"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn each_action_is_one_line_and_a_run_begins_with_another() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let in_session = json!({"session": session});
    let run = world.run_with("file a.txt x", in_session.clone()).await;
    world.tool("list_files", in_session.clone()).await.ok();
    let upload = json!({"session": session, "path": "b", "text": "y"});
    world.tool("upload_file", upload).await.ok();
    let fetch = json!({"session": session, "path": "a.txt"});
    let fetched = world.tool("fetch_artifact", fetch).await;
    let uri = format!(
        "belljar://artifacts/{}",
        fetched.ok()["artifact_id"].as_str().unwrap()
    );
    world
        .client
        .request("resources/read", json!({"uri": uri}))
        .await;
    world.tool("close_session", in_session).await.ok();
    world.broker.stop().await;
    let lines = world.audit();
    assert_eq!(
        names(&lines),
        [
            "start",
            "open_session",
            "begin_run",
            "run_code",
            "list_files",
            "upload_file",
            "fetch_artifact",
            "read_resource",
            "close_session",
            "stop",
        ]
    );
    for line in &lines {
        assert_eq!(
            line["decision"],
            json!({"verdict": "allow", "reason": "within_settings"})
        );
        assert_eq!(line["caller"], "local");
    }
    for line in &lines[1..7] {
        assert_eq!(line["session"], session.as_str(), "{line}");
    }
    for line in &lines[2..4] {
        assert_eq!(line["run_id"], run.ok()["run_id"]);
        // What the session was opened with holds for its runs, and stands in their lines.
        assert_eq!(line["network"], "none");
        assert_eq!(line["limits"]["memory_mib"], 512);
    }
    assert_eq!(lines[5]["inputs"][0]["path"], "b");
    assert_eq!(lines[6]["artifacts"][0]["sha256"], fetched.ok()["sha256"]);
}

#[tokio::test]
async fn a_run_is_recorded_with_all_that_decides_what_it_was() {
    let world = World::new().await;
    let code = "out hello\nfile r.txt result";
    let more = json!({
        "args": ["a", "b c"], "stdin": "input", "env": {"TOKEN": "hunter2"},
        "files": [{"path": "in.txt", "text": "data"}],
        "limits": {"memory_mib": 128, "cpus": 0.5}, "timeout_seconds": 5,
    });
    let run = world.run_with(code, more).await;
    let lines = world.audit();
    let (begin, end) = (&lines[1], &lines[2]);
    for line in [begin, end] {
        assert_eq!(line["run_id"], run.ok()["run_id"]);
        assert_eq!(line["code_sha256"], Sha256::of(code.as_bytes()).to_string());
        assert_eq!(line["code_bytes"], code.len());
        let args = args_digest(&["a".to_owned(), "b c".to_owned()]);
        assert_eq!(line["args_sha256"], args.to_string());
        assert_eq!(line["language"], "python");
        assert_eq!(line["network"], "none");
        assert_eq!(line["timeout_ms"], 5000);
        assert_eq!(line["limits"]["memory_mib"], 128);
        assert_eq!(line["limits"]["cpus_milli"], 500);
        assert_eq!(line["runtime"], "runc");
        assert!(line["image_id"].as_str().unwrap().starts_with("sha256:"));
        assert_eq!(line["env"][0]["name"], "TOKEN");
        assert_eq!(line["env"][0]["hmac_sha256"].as_str().unwrap().len(), 64);
        assert_eq!(line["inputs"][0]["path"], "in.txt");
        assert_eq!(line["inputs"][0]["sha256"], Sha256::of(b"data").to_string());
        let plain = Sha256::of(b"hunter2").to_string();
        assert!(!line.to_string().contains("hunter2") && !line.to_string().contains(&plain));
    }
    assert!(begin.get("outcome").is_none());
    assert_eq!(end["outcome"]["status"], "exited");
    assert_eq!(end["outcome"]["exit_code"], 0);
    assert_eq!(end["stdout"]["sha256"], Sha256::of(b"hello\n").to_string());
    assert_eq!(end["stdout"]["bytes"], 6);
    assert_eq!(end["artifacts"][0]["path"], "r.txt");
    assert_eq!(
        end["artifacts"][0]["sha256"],
        Sha256::of(b"result").to_string()
    );

    let mut records = world.records(run.ok()["run_id"].as_str().unwrap(), 4).await;
    records.sort();
    let expected = [
        ("args.json", r#"["a","b c"]"#),
        ("code", code),
        ("stdin", "input"),
        ("stdout", "hello\n"),
    ];
    assert_eq!(
        records,
        expected.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
    );
}

#[tokio::test]
async fn what_is_denied_is_recorded_with_its_reason() {
    let world = World::new().await;
    for (tool, arguments, reason) in [
        (
            "run_code",
            json!({"language": "cobol", "code": "x"}),
            "unknown_language",
        ),
        (
            "run_code",
            json!({"language": "python", "code": ""}),
            "code_empty",
        ),
        (
            "run_code",
            json!({"language": "python", "code": "x", "network": "lan"}),
            "unknown_network",
        ),
        (
            "run_code",
            json!({"language": "python", "code": "x", "timeout_seconds": 0}),
            "limit",
        ),
        (
            "run_code",
            json!({"language": "python", "code": "x", "session": "x"}),
            "unknown_session",
        ),
        ("run_code", json!({"language": "python"}), "bad_arguments"),
        ("upload_file", json!({"path": "../x", "text": "y"}), "path"),
        ("upload_file", json!({"path": "x"}), "bad_arguments"),
        (
            "upload_file",
            json!({"path": "x", "local_path": "/etc/passwd"}),
            "local_file",
        ),
        (
            "fetch_artifact",
            json!({"artifact_id": "x"}),
            "unknown_artifact",
        ),
        ("fetch_artifact", json!({}), "bad_arguments"),
        (
            "open_session",
            json!({"language": "python", "ttl_seconds": 0}),
            "limit",
        ),
        ("list_files", json!({"session": "x"}), "unknown_session"),
        ("close_session", json!({"session": "x"}), "unknown_session"),
    ] {
        let before = world.audit().len();
        world.tool(tool, arguments.clone()).await.error();
        let lines = &world.audit()[before..];
        assert_eq!(names(lines), [tool], "{arguments}");
        assert_eq!(
            lines[0]["decision"],
            json!({"verdict": "deny", "reason": reason}),
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn the_raw_output_is_kept_for_the_record_whatever_was_shown() {
    let world = World::new().await;
    for (code, bytes) in [
        ("flood 100000", vec![b'x'; 100_000]),
        ("raw 1b00ff", vec![0x1b, 0, 0xff]),
        ("out hello\nsignal 11", b"hello\n".to_vec()),
        ("out hello\nlie vanish", b"hello\n".to_vec()),
    ] {
        let run = world.run(code).await;
        let id = run.ok()["run_id"].as_str().unwrap();
        let records = world.records(id, 2).await;
        let kept = |name: &str| {
            let found = records.iter().find(|(known, _)| known == name);
            found.map(|(_, bytes)| bytes.clone())
        };
        assert_eq!(kept("code").as_deref(), Some(code.as_bytes()));
        assert!(kept("stdout") == Some(bytes), "{code}");
    }
}

#[tokio::test]
async fn a_line_names_so_many_variables_and_counts_the_rest() {
    let world = World::new().await;
    let env: serde_json::Map<String, Value> = (0..100)
        .map(|at| (format!("V{at:03}"), Value::from("x")))
        .collect();
    world.run_with("out x", json!({"env": env})).await.ok();
    let line = world.lines("run_code").pop().unwrap();
    assert_eq!(line["env"].as_array().unwrap().len(), 64);
    assert_eq!(line["env_omitted"], 36);
}

/// A log whose every line is written as long as the reader lives.
fn breakable() -> (PipeReader, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    #[cfg(unix)]
    let file = File::from(std::os::fd::OwnedFd::from(writer));
    #[cfg(windows)]
    let file = File::from(std::os::windows::io::OwnedHandle::from(writer));
    (reader, file)
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_done() {
    let (reader, file) = breakable();
    let world = Setup::new().audit(file).start().await;
    let session = world.open(json!({})).await;
    drop(reader);
    let answer = world.run("out never").await;
    assert!(
        answer
            .error()
            .contains("could not be recorded, so it is not done"),
        "{}",
        answer.error()
    );
    // What begins to run is kept.
    assert_eq!(kept(&world), 0, "no program began");
    for (tool, arguments) in [
        (
            "run_code",
            json!({"language": "python", "code": "file ran x", "session": session}),
        ),
        ("upload_file", json!({"path": "a", "text": "b"})),
        ("open_session", json!({"language": "python"})),
        ("list_files", json!({"session": session})),
    ] {
        let refused = world.tool(tool, arguments).await;
        assert!(
            refused.error().contains("could not be recorded"),
            "{tool}: {}",
            refused.error()
        );
    }
    // The upload alone, which its caller was not told of.
    assert_eq!(kept(&world), 1, "no program began");
    world.broker.stop().await;
    assert_eq!(world.daemon.containers().len(), 0);
}

/// How many codes, inputs and outputs are kept.
fn kept(world: &World) -> usize {
    let entries = world.state.path().join("artifacts/entries");
    std::fs::read_dir(entries).unwrap().count()
}

#[tokio::test]
async fn a_run_whose_code_cannot_be_kept_is_ended_and_not_answered() {
    let world = World::new().await;
    world.works().await;
    world.until_empty().await;
    std::fs::remove_dir_all(world.state.path().join("artifacts")).unwrap();
    // It would never end by itself.
    let answer = world.run("out never\nhang").await;
    assert!(
        answer
            .error()
            .contains("is the disk of the state directory full"),
        "{}",
        answer.error()
    );
    world.until_empty().await;
    let last = world.lines("run_code").pop().unwrap();
    assert!(
        last["error"].as_str().unwrap().starts_with("store: "),
        "{last}"
    );
    assert!(last.get("outcome").is_none());
}

#[tokio::test]
async fn another_servers_log_is_left_alone() {
    let world = World::new().await;
    let other = Setup::beside(&world).start().await;
    world.works().await;
    other.works().await;
    let instances: std::collections::BTreeSet<_> = world
        .lines("begin_run")
        .iter()
        .map(|line| line["instance"].to_string())
        .collect();
    assert_eq!(instances.len(), 2);
    world.broker.stop().await;
    other.works().await;
    assert!(other.daemon.count(Verb::Remove) > 0);
    for report in belljar::audit::Logs::open(world.state.path().join("audit"))
        .verify()
        .unwrap()
    {
        assert_eq!(report.fault, None);
    }
}
