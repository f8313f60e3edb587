//! Input that makes no sense or is not allowed: each gets an error that says what is wrong, makes no container, and
//! leaves the server as it was.

use serde_json::{Value, json};

use crate::harness::{World, merged};

const NOBODYS: &str = "0123456789abcdef0123456789abcdef";

/// Calls each tool with its bad arguments and looks for the words in the error.
async fn refuses(world: &World, cases: Vec<(&str, Value, &[&str])>) {
    world.works().await;
    for (tool, arguments, words) in cases {
        let before = world.created();
        let denied = world.audit().len();
        let shown: String = arguments.to_string().chars().take(200).collect();
        let answer = world.tool(tool, arguments).await;
        let text = answer.error();
        for word in words {
            assert!(text.contains(word), "{tool} {shown}: {text}");
        }
        assert!(text.len() < 2000, "{tool} {shown}: an error is short");
        assert_eq!(
            world.created(),
            before,
            "{tool} {shown}: a container was made"
        );
        let lines = &world.audit()[denied..];
        assert_eq!(lines.len(), 1, "{tool} {shown}: one line in the log");
        assert_eq!(lines[0]["action"], tool, "{shown}");
        assert!(
            lines[0]["decision"]["verdict"] == "deny" || lines[0]["error"].is_string(),
            "{tool} {shown}: {}",
            lines[0]
        );
    }
    world.works().await;
}

/// The same for arguments of `run_code` beside the usual ones.
async fn run_refuses(cases: Vec<(Value, &[&str])>) {
    let world = World::new().await;
    let usual = json!({"language": "python", "code": "out x"});
    let cases = cases
        .into_iter()
        .map(|(more, words)| ("run_code", merged(usual.clone(), more), words));
    refuses(&world, cases.collect()).await;
}

#[tokio::test]
async fn unknown_and_malformed_fields() {
    run_refuses(vec![
        (json!({"frobnicate": 1}), &["frobnicate", "unknown field"]),
        (
            json!({"limits": {"memory": 1}}),
            &["limits", "memory", "unknown field"],
        ),
        (
            json!({"files": [{"path": "a", "text": "b", "mode": 1}]}),
            &["files", "mode"],
        ),
        (json!({"language": 7}), &["language", "string"]),
        (json!({"code": null}), &["code", "string"]),
        (json!({"code": ["out x"]}), &["code", "string"]),
        (json!({"args": "one"}), &["args"]),
        (json!({"args": [1]}), &["args", "string"]),
        (json!({"env": ["A=1"]}), &["env"]),
        (json!({"env": {"A": 1}}), &["env", "A"]),
        (json!({"files": {"a": "b"}}), &["files"]),
        (json!({"files": [{"text": "b"}]}), &["path"]),
        (json!({"limits": 5}), &["limits"]),
        (json!({"timeout_seconds": "30"}), &["timeout_seconds"]),
        (
            json!({"limits": {"pids": 16.5}}),
            &["limits.pids", "whole number"],
        ),
        (json!({"x".repeat(1_000_000): 1}), &["unknown field"]),
        (json!({"\u{202e}\u{1b}[2J": 1}), &["\\u{202e}"]),
    ])
    .await;
    let world = World::new().await;
    refuses(
        &world,
        vec![
            ("run_code", json!({}), &["language"]),
            ("run_code", json!({"language": "python"}), &["code"]),
            ("open_session", json!({}), &["language"]),
            ("close_session", json!({}), &["session"]),
            ("list_files", json!({"session": 1}), &["session"]),
            ("upload_file", json!({"text": "x"}), &["path"]),
            (
                "fetch_artifact",
                json!({"artifact_id": NOBODYS, "offset": -1}),
                &["offset"],
            ),
            (
                "fetch_artifact",
                json!({"artifact_id": NOBODYS, "length": "all"}),
                &["length"],
            ),
            (
                "fetch_artifact",
                json!({"artifact_id": NOBODYS, "encoding": "hex"}),
                &["encoding", "hex"],
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn arguments_that_are_no_object() {
    let world = World::new().await;
    for arguments in [json!([]), json!("x"), json!(7)] {
        let params = json!({"name": "run_code", "arguments": arguments});
        let response = world.client.request("tools/call", params).await;
        assert!(response["error"]["code"].is_i64(), "{response}");
        world.works().await;
    }
    let params = json!({"name": "run_code"});
    let response = world.client.request("tools/call", params).await;
    assert_eq!(response["result"]["isError"], true, "{response}");
}

#[tokio::test]
async fn code_language_network_and_session() {
    run_refuses(vec![
        (json!({"code": ""}), &["empty"]),
        (
            json!({"code": "#".repeat(2 << 20)}),
            &["2097152 bytes", "at most 1048576"],
        ),
        (
            json!({"language": "cobol"}),
            &["\"cobol\"", "python", "javascript", "bash", "node"],
        ),
        (json!({"language": ""}), &["python"]),
        (json!({"language": "../python"}), &["python"]),
        (json!({"language": "x".repeat(1 << 20)}), &["python"]),
        (json!({"network": "internet"}), &["\"internet\"", "none"]),
        (json!({"network": ""}), &["none"]),
        (
            json!({"session": NOBODYS}),
            &["unknown session", "open_session"],
        ),
        (json!({"session": ""}), &["unknown session"]),
        (
            json!({"session": "x".repeat(100_000)}),
            &["unknown session"],
        ),
        (
            json!({"stdin": "x".repeat((8 << 20) + 1)}),
            &["stdin", "8388608"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn paths_that_lead_elsewhere() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let long = "x".repeat(256);
    let deep = "d/".repeat(70) + "f";
    let longest = format!("{}f", "x/".repeat(2500));
    let mut cases: Vec<(&str, Value, &[&str])> = Vec::new();
    let paths: [(&str, &[&str]); 21] = [
        ("", &["empty"]),
        ("/etc/passwd", &["absolute"]),
        ("/workspace/x", &["absolute"]),
        ("..", &["`..`"]),
        ("../x", &["`..`"]),
        ("a/../../x", &["`..`"]),
        ("a/../b", &["`..`"]),
        (".", &["`.`"]),
        ("./a", &["`.`"]),
        ("a//b", &["empty"]),
        ("a/", &["empty"]),
        ("a\0b", &["NUL"]),
        ("a\\x00b", &["NUL"]),
        ("\\x2e\\x2e/x", &["`..`"]),
        ("\\x2fetc/passwd", &["absolute"]),
        ("a\\qb", &["backslash"]),
        ("a\\", &["backslash"]),
        (&long, &["too long"]),
        (&deep, &["too long"]),
        (&longest, &["too long"]),
        (".main.py", &["belljar's own"]),
    ];
    for (path, words) in paths {
        let file =
            json!({"language": "python", "code": "out x", "files": [{"path": path, "text": "x"}]});
        cases.push(("run_code", file, words));
        let into = json!({"session": session, "path": path, "text": "x"});
        cases.push(("upload_file", into, words));
        if path != ".main.py" {
            cases.push(("upload_file", json!({"path": path, "text": "x"}), words));
            cases.push((
                "fetch_artifact",
                json!({"session": session, "path": path}),
                words,
            ));
            cases.push((
                "list_files",
                json!({"session": session, "path": path}),
                words,
            ));
        }
    }
    cases.push((
        "fetch_artifact",
        json!({"session": session, "path": "none"}),
        &["list_files"],
    ));
    cases.push((
        "list_files",
        json!({"session": session, "path": "none"}),
        &["list_files"],
    ));
    refuses(&world, cases).await;
    let listed = world.tool("list_files", json!({"session": session})).await;
    assert_eq!(listed.ok()["entries"], json!([]), "nothing was written");
}

#[tokio::test]
async fn files_that_make_no_sense() {
    let file = |path: &str| json!({"path": path, "text": "x"});
    run_refuses(vec![
        (json!({"files": [file("a"), file("a")]}), &["\"a\"", "twice"]),
        (json!({"files": [file("a"), file("\\x61")]}), &["twice"]),
        (json!({"files": [file("a"), file("a/b")]}), &["folder"]),
        (json!({"files": [file("a/b/c"), file("a/b")]}), &["folder"]),
        (json!({"files": [file(".home")]}), &["belljar's own"]),
        (json!({"files": [file(".main.py/x")]}), &["belljar's own"]),
        (json!({"files": [{"path": "a", "base64": "!!!"}]}), &["base64", "\"a\""]),
        (json!({"files": [{"path": "a", "base64": "YQ"}]}), &["base64", "padding"]),
        (json!({"files": [{"path": "a", "base64": "YW\nJj"}]}), &["base64", "line breaks"]),
        (json!({"files": [{"path": "a"}]}), &["exactly one of"]),
        (json!({"files": [{"path": "a", "text": "", "base64": ""}]}), &["exactly one of"]),
        (json!({"files": [{"path": "a", "file_id": NOBODYS}]}), &["file_id", "upload_file"]),
        (json!({"files": [{"path": "a", "file_id": "../x"}]}), &["file_id", "\"../x\""]),
        (
            json!({"files": [{"path": "a", "text": "x".repeat(2 << 20)}], "limits": {"workspace_mib": 1}}),
            &["2097152 bytes", "limits.workspace_mib is 1"],
        ),
        (
            json!({"files": [{"path": "a", "text": "x".repeat(11 << 20)}]}),
            &["at most 10485760", "upload_file"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn lists_of_very_many() {
    let env: serde_json::Map<String, Value> = (0..100_000)
        .map(|at| (format!("V{at}"), Value::from("x")))
        .collect();
    // Twice as many would take more memory than any message may.
    let files: Vec<Value> = (0..50_000)
        .map(|at| json!({"path": format!("f{at}"), "text": ""}))
        .collect();
    run_refuses(vec![
        (
            json!({"args": vec!["x"; 100_000]}),
            &["args has 100000 entries", "at most"],
        ),
        (json!({"env": env}), &["env has 100000 entries", "at most"]),
        (
            json!({"files": files}),
            &["files has 50000 entries", "at most", "archive"],
        ),
        (
            json!({"args": ["x".repeat(200_000)]}),
            &["args[0]", "stdin or a file"],
        ),
        (json!({"args": ["a", "a\0b"]}), &["args[1]", "NUL"]),
    ])
    .await;
}

#[tokio::test]
async fn limits_out_of_range_name_the_range() {
    let world = World::new().await;
    let mut cases: Vec<(&str, Value, &[&str])> = Vec::new();
    let limits: [(&str, &[f64], &[&str]); 5] = [
        (
            "memory_mib",
            &[63.0, 4097.0, 0.0, -1.0, 1e12],
            &["limits.memory_mib", "between 64 and 4096"],
        ),
        (
            "cpus",
            &[0.05, 4.5, 0.0, -1.0, 1e300],
            &["limits.cpus", "between 0.1 and 4"],
        ),
        (
            "pids",
            &[15.0, 1025.0, 0.0, -1.0, 1e12],
            &["limits.pids", "between 16 and 1024"],
        ),
        (
            "workspace_mib",
            &[0.0, 2049.0, -1.0, 1e12],
            &["limits.workspace_mib", "between 1 and 2048"],
        ),
        (
            "output_kib",
            &[0.0, 262_145.0, -1.0, 1e12],
            &["limits.output_kib", "between 1 and 262144"],
        ),
    ];
    for (name, values, words) in limits {
        for value in values {
            // As a client writes it: a whole number without a point.
            let value: Value = if value.fract() == 0.0 && value.abs() < 1e15 {
                serde_json::from_str(&format!("{value:.0}")).unwrap()
            } else {
                json!(value)
            };
            let mut arguments = json!({"language": "python", "limits": {name: value}});
            cases.push(("open_session", arguments.clone(), words));
            arguments["code"] = json!("out x");
            cases.push(("run_code", arguments, words));
        }
    }
    for seconds in [json!(0), json!(0.05), json!(-1), json!(1e9), json!(301)] {
        let arguments = json!({"language": "python", "code": "out x", "timeout_seconds": seconds});
        cases.push((
            "run_code",
            arguments,
            &["timeout_seconds must lie between 0.1 and 300"],
        ));
    }
    for seconds in [json!(0), json!(-1), json!(86_401), json!(1e18)] {
        let arguments = json!({"language": "python", "ttl_seconds": seconds});
        cases.push((
            "open_session",
            arguments,
            &["ttl_seconds must lie between 1 and 86400"],
        ));
    }
    refuses(&world, cases).await;
    let most = json!({
        "limits": {"memory_mib": 4096, "cpus": 4, "pids": 1024, "workspace_mib": 2048, "output_kib": 262_144},
        "timeout_seconds": 300,
    });
    world.run_with("out x", most).await.ok();
    let least = json!({
        "limits": {"memory_mib": 64, "cpus": 0.1, "pids": 16, "workspace_mib": 1, "output_kib": 1},
        "timeout_seconds": 5,
    });
    world.run_with("out x", least).await.ok();
}

#[tokio::test]
async fn variables_that_no_program_may_have() {
    run_refuses(vec![
        (
            json!({"env": {"A=B": "x"}}),
            &["\"A=B\"", "letters, digits"],
        ),
        (json!({"env": {"A\0": "x"}}), &["letters, digits"]),
        (json!({"env": {"": "x"}}), &["letters, digits"]),
        (json!({"env": {"1A": "x"}}), &["\"1A\""]),
        (json!({"env": {"A": "x\0y"}}), &["\"A\"", "NUL"]),
        (
            json!({"env": {"LD_PRELOAD": "/workspace/x.so"}}),
            &["LD_PRELOAD", "loader"],
        ),
        (json!({"env": {"LD_LIBRARY_PATH": "."}}), &["loader"]),
        (json!({"env": {"GLIBC_TUNABLES": "x"}}), &["loader"]),
        (
            json!({"env": {"A": "x".repeat(200_000)}}),
            &["\"A\"", "stdin or a file"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_other_tools() {
    let world = World::new().await;
    let session = world.open(json!({"limits": {"workspace_mib": 1}})).await;
    let artifact = world.run("file f x").await;
    let artifact = artifact.ok()["artifacts"][0]["artifact_id"].clone();
    let upload = world
        .tool("upload_file", json!({"path": "u", "text": "x"}))
        .await;
    let upload = upload.ok()["file_id"].clone();
    refuses(
        &world,
        vec![
            ("upload_file", json!({"path": "a"}), &["exactly one of"]),
            (
                "upload_file",
                json!({"path": "a", "text": "", "base64": ""}),
                &["exactly one of"],
            ),
            (
                "upload_file",
                json!({"path": "a", "base64": "%"}),
                &["base64"],
            ),
            (
                "upload_file",
                json!({"path": "a", "text": "x".repeat(11 << 20)}),
                &["at most 10485760"],
            ),
            (
                "upload_file",
                json!({"session": session, "path": "a", "text": "x".repeat(2 << 20)}),
                &["2097152 bytes", "limits.workspace_mib is 1"],
            ),
            (
                "upload_file",
                json!({"session": NOBODYS, "path": "a", "text": "x"}),
                &["unknown session"],
            ),
            (
                "fetch_artifact",
                json!({}),
                &["artifact_id", "session", "path"],
            ),
            ("fetch_artifact", json!({"session": session}), &["path"]),
            ("fetch_artifact", json!({"path": "f"}), &["session"]),
            (
                "fetch_artifact",
                json!({"artifact_id": artifact, "session": session, "path": "f"}),
                &["either"],
            ),
            (
                "fetch_artifact",
                json!({"artifact_id": NOBODYS}),
                &["unknown artifact"],
            ),
            (
                "fetch_artifact",
                json!({"artifact_id": "../../etc/passwd"}),
                &["unknown artifact"],
            ),
            // An upload is no artifact.
            (
                "fetch_artifact",
                json!({"artifact_id": upload}),
                &["unknown artifact"],
            ),
            (
                "fetch_artifact",
                json!({"artifact_id": artifact, "overwrite": true}),
                &["save_to"],
            ),
            (
                "fetch_artifact",
                json!({"artifact_id": artifact, "offset": 2}),
                &["past the end"],
            ),
            ("open_session", json!({"language": "cobol"}), &["python"]),
            (
                "open_session",
                json!({"language": "python", "network": "lan"}),
                &["\"lan\""],
            ),
            (
                "close_session",
                json!({"session": NOBODYS}),
                &["unknown session"],
            ),
            (
                "list_files",
                json!({"session": NOBODYS}),
                &["unknown session"],
            ),
        ],
    )
    .await;
    let listed = world.tool("list_files", json!({"session": session})).await;
    assert_eq!(listed.ok()["entries"], json!([]));
}
