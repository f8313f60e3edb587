//! Sessions: what stays, what is fixed, and how they end.

use std::time::Duration;

use belljar::engine::fake::{Cue, Verb};
use serde_json::{Value, json};

use crate::harness::{Setup, World};

#[tokio::test]
async fn a_session_keeps_its_files_and_nothing_else_does() {
    let world = World::new().await;
    let opened = world
        .tool("open_session", json!({"language": "python"}))
        .await;
    let result = opened.ok();
    assert_eq!(result["languages"], json!(["python", "bash"]));
    assert_eq!(result["network"], "none");
    assert_eq!(result["idle_seconds"], 900);
    assert!(result["expires_at"].as_str().unwrap().ends_with('Z'));
    let session = result["session"].as_str().unwrap();
    assert_eq!(session.len(), 32, "128 bits");

    let first = world
        .run_with("file a.txt kept", json!({"session": session}))
        .await;
    assert_eq!(first.ok()["sandbox"]["session"], session);
    assert_eq!(first.ok()["sandbox"]["fresh"], true);
    assert_eq!(
        first.ok()["artifacts"],
        json!([{
            "artifact_id": null, "uri": null, "path": "a.txt", "bytes": 4, "media_type": "text/plain; charset=utf-8", "sha256": null,
        }])
    );
    let more = json!({"session": session, "language": "bash"});
    let second = world.run_with("show a.txt", more).await;
    assert_eq!(second.ok()["stdout"]["text"], "kept");
    assert_eq!(second.ok()["sandbox"]["fresh"], false);
    let fresh = world.run("show a.txt").await;
    assert_eq!(fresh.ok()["stdout"]["text"], "");

    let closed = world
        .tool("close_session", json!({"session": session}))
        .await;
    assert_eq!(closed.ok(), &json!({"session": session, "closed": true}));
    world.until_empty().await;
}

#[tokio::test]
async fn runs_in_a_session_come_one_after_the_other() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let in_session = || json!({"session": session});
    let mut calls = Vec::new();
    for at in 0..6 {
        // Whoever is second shows what the first one wrote.
        let code = format!("show log\nsleep 20\nfile log {at}");
        calls.push(world.begin_run(&code, in_session()).await);
    }
    let mut seen = Vec::new();
    for call in calls {
        let answer = call.answer().await;
        assert_eq!(answer.ok()["status"], "exited");
        seen.push(answer.ok()["stdout"]["text"].as_str().unwrap().to_owned());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 6, "no two saw the same: {seen:?}");
}

#[tokio::test]
async fn too_many_that_wait_for_one_session_are_told_so() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let mut calls = Vec::new();
    for _ in 0..12 {
        calls.push(
            world
                .begin_run("sleep 50", json!({"session": session}))
                .await,
        );
    }
    let (mut ran, mut busy) = (0, 0);
    for call in calls {
        let response = call.response().await;
        if response["result"]["isError"] == true {
            let text = response["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("this session is busy"), "{text}");
            busy += 1;
        } else {
            ran += 1;
        }
    }
    assert_eq!((ran, busy), (9, 3), "one runs and eight wait");
}

#[tokio::test]
async fn what_was_fixed_at_the_opening_stays() {
    let world = World::new().await;
    let limits = json!({"memory_mib": 128, "cpus": 0.5, "pids": 32, "workspace_mib": 8});
    let session = world.open(json!({"limits": limits})).await;
    for (more, words) in [
        (
            json!({"limits": {"memory_mib": 256}}),
            "limits.memory_mib was fixed",
        ),
        (json!({"limits": {"cpus": 1}}), "limits.cpus was fixed"),
        (json!({"limits": {"pids": 33}}), "limits.pids was fixed"),
        (
            json!({"limits": {"workspace_mib": 9}}),
            "limits.workspace_mib was fixed",
        ),
        (json!({"network": "open"}), "opened with network none"),
        (
            json!({"language": "javascript"}),
            "this session runs python",
        ),
    ] {
        let mut more = more;
        more["session"] = Value::from(session.as_str());
        let refused = world.run_with("out x", more).await;
        assert!(refused.error().contains(words), "{}", refused.error());
    }
    let more = json!({
        "session": session, "limits": {"memory_mib": 128, "cpus": 0.5, "output_kib": 1}, "timeout_seconds": 5,
        "network": "none",
    });
    let answer = world.run_with("flood 100000", more).await;
    assert_eq!(answer.ok()["status"], "output_limit");
    let again = world.run_with("out x", json!({"session": session})).await;
    assert_eq!(again.ok()["status"], "exited", "the session goes on");
}

#[tokio::test]
async fn a_session_survives_every_end_of_a_run_but_its_own() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let in_session = || json!({"session": session});
    world.run_with("file a kept", in_session()).await.ok();
    let mut timed = in_session();
    timed["timeout_seconds"] = json!(0.1);
    for (code, more, status) in [
        ("signal 11", in_session(), "signaled"),
        ("oom", in_session(), "out_of_memory"),
        ("hang", timed, "timed_out"),
        ("exit 1", in_session(), "exited"),
    ] {
        let answer = world.run_with(code, more).await;
        assert_eq!(answer.ok()["status"], status);
        let shown = world.run_with("show a", in_session()).await;
        assert_eq!(shown.ok()["stdout"]["text"], "kept", "after {code}");
    }
    let lost = world.run_with("out before\nlie vanish", in_session()).await;
    assert_eq!(lost.ok()["status"], "sandbox_lost");
    for answer in [
        world.run_with("out x", in_session()).await,
        world.tool("list_files", in_session()).await,
        world.tool("close_session", in_session()).await,
    ] {
        assert!(
            answer.error().contains("its sandbox was lost"),
            "{}",
            answer.error()
        );
    }
    world.until_empty().await;
}

#[tokio::test]
async fn a_session_that_is_gone_says_why_and_an_unknown_one_that_it_is_unknown() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let other = Setup::beside(&world).start().await;
    world
        .tool("close_session", json!({"session": session}))
        .await
        .ok();
    let theirs = other.open(json!({})).await;
    let every_tool = async |id: &str, words: &str| {
        for (tool, arguments) in [
            (
                "run_code",
                json!({"language": "python", "code": "out x", "session": id}),
            ),
            (
                "upload_file",
                json!({"path": "a", "text": "b", "session": id}),
            ),
            ("fetch_artifact", json!({"path": "a", "session": id})),
            ("list_files", json!({"session": id})),
            ("close_session", json!({"session": id})),
        ] {
            let refused = world.tool(tool, arguments).await;
            assert!(
                refused.error().contains(words),
                "{tool}: {}",
                refused.error()
            );
        }
    };
    every_tool(&session, "it was closed").await;
    // One of another window is as unknown as one that never was.
    for id in [
        theirs.as_str(),
        "0123456789abcdef0123456789abcdef",
        "",
        "../..",
        "x",
    ] {
        every_tool(id, "unknown session").await;
    }
    other.works().await;
}

#[tokio::test]
async fn an_idle_session_ends_and_its_container_goes() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(901)).await;
    let gone = world.tool("list_files", json!({"session": session})).await;
    assert!(
        gone.error().contains("it lay idle for 900 s"),
        "{}",
        gone.error()
    );
    world.until_empty().await;
}

#[tokio::test]
async fn a_lease_ends_however_busy_the_session_is() {
    let world = World::new().await;
    let session = world.open(json!({"ttl_seconds": 1})).await;
    let more = json!({"session": session, "timeout_seconds": 60});
    let answer = world.run_with("out before\nhang", more).await;
    assert_eq!(answer.ok()["status"], "cancelled");
    assert_eq!(answer.ok()["stdout"]["text"], "before\n");
    let gone = world.tool("list_files", json!({"session": session})).await;
    assert!(
        gone.error().contains("its lease of 1 s was over"),
        "{}",
        gone.error()
    );
    world.until_empty().await;
}

#[tokio::test]
async fn closing_stops_the_run_in_it() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let call = world
        .begin_run("out before\nhang", json!({"session": session}))
        .await;
    world.until_begun(0).await;
    world
        .tool("close_session", json!({"session": session}))
        .await
        .ok();
    let answer = call.answer().await;
    assert_eq!(answer.ok()["status"], "cancelled");
    world.until_empty().await;
    world.works().await;
}

#[tokio::test]
async fn only_so_many_sessions_are_opened() {
    let world = Setup::new().config("[sessions]\nmax = 2").start().await;
    let first = world.open(json!({})).await;
    world.open(json!({})).await;
    let before = world.created();
    let refused = world
        .tool("open_session", json!({"language": "python"}))
        .await;
    assert!(
        refused.error().contains("you have 2 sessions"),
        "{}",
        refused.error()
    );
    assert!(refused.error().contains(&first), "the oldest are named");
    assert_eq!(world.created(), before);
    world
        .tool("close_session", json!({"session": first}))
        .await
        .ok();
    world.open(json!({})).await;
}

#[tokio::test]
async fn whoever_closes_a_session_does_not_wait_for_a_daemon_that_hangs() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let hour = Duration::from_hours(1);
    world.daemon.on(Verb::Remove, Cue::Delay(hour));
    tokio::time::pause();
    let closed = world
        .tool("close_session", json!({"session": session}))
        .await;
    tokio::time::resume();
    assert!(
        closed.error().contains("belljar goes on trying"),
        "{}",
        closed.error()
    );
    let again = world
        .tool("close_session", json!({"session": session}))
        .await;
    assert!(again.error().contains("closed"), "{}", again.error());
}
