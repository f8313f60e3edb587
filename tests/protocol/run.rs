//! `run_code`: how every outcome is told, and that nothing is lost on the way.

use std::time::Duration;

use belljar::engine::{
    daemon::OomFlag,
    fake::{Cue, FakeDaemon, Verb},
    scripted_guest::Greeting,
};
use serde_json::{Value, json};

use crate::harness::{Setup, World, until};

#[tokio::test]
async fn a_program_that_ends_well() {
    let world = World::new().await;
    let answer = world.run("out hello\nerr careful").await;
    let result = answer.ok();
    assert_eq!(result["status"], "exited");
    assert_eq!(result["exit_code"], 0);
    assert_eq!(result["signal"], Value::Null);
    assert_eq!(result["stdout"]["text"], "hello\n");
    assert_eq!(result["stdout"]["bytes"], 6);
    assert_eq!(result["stdout"]["truncated"], false);
    assert_eq!(result["stdout"]["omitted_bytes"], 0);
    assert_eq!(result["stdout"]["artifact_id"], Value::Null);
    assert_eq!(result["stderr"]["text"], "careful\n");
    assert_eq!(
        result["sandbox"],
        json!({
            "runtime": "runc", "image": "belljar/python:latest", "network": "none",
            "session": null, "fresh": true,
        })
    );
    assert_eq!(
        result["egress"],
        json!({"allowed": [], "denied": [], "failed": []})
    );
    assert_eq!(result["artifacts"], json!([]));
    world.until_empty().await;
}

#[tokio::test]
async fn a_program_that_fails_is_a_result() {
    let world = World::new().await;
    let answer = world.run("err traceback\nexit 3").await;
    let result = answer.ok();
    assert_eq!(
        (&result["status"], &result["exit_code"]),
        (&json!("exited"), &json!(3))
    );
    assert!(answer.text().starts_with("exit 3 · "));
    let answer = world.run("this is no command").await;
    assert_eq!(answer.ok()["exit_code"], 127);
}

#[tokio::test]
async fn every_end_is_told_apart_and_keeps_what_came_before() {
    let world = World::new().await;
    for (code, more, status, first_words) in [
        (
            "out before\nsignal 11",
            json!({}),
            "signaled",
            "ended by signal SIGSEGV",
        ),
        (
            "out before\nsignal 9",
            json!({}),
            "signaled",
            "ended by signal SIGKILL",
        ),
        (
            "out before\nhang",
            json!({"timeout_seconds": 0.1}),
            "timed_out",
            "timed out",
        ),
        (
            "out before\nlie stubborn",
            json!({"timeout_seconds": 0.1}),
            "timed_out",
            "timed out",
        ),
        (
            "out before\noom",
            json!({"limits": {"memory_mib": 64}}),
            "out_of_memory",
            "out of memory (limits.memory_mib 64)",
        ),
        (
            "out before\nflood 5000000",
            json!({"limits": {"output_kib": 1}}),
            "output_limit",
            "output limit of 1 KiB reached",
        ),
        (
            "out before\nlie vanish",
            json!({}),
            "sandbox_lost",
            "sandbox lost",
        ),
    ] {
        let answer = world.run_with(code, more).await;
        let result = answer.ok();
        assert_eq!(result["status"], status, "{code}: {result}");
        assert_eq!(result["exit_code"], Value::Null, "{code}");
        let text = answer.text();
        assert!(
            text.starts_with(&format!("{first_words} · ")),
            "{code}: {text}"
        );
        let shown = result["stdout"]["text"].as_str().unwrap();
        assert!(shown.starts_with("before\n"), "{code}: {shown}");
        world.until_empty().await;
    }
    let signaled = world.run("signal 11").await;
    assert_eq!(signaled.ok()["signal"], "SIGSEGV");
    world.works().await;
}

#[tokio::test]
async fn a_guest_that_breaks_the_protocol_costs_it_its_container_only() {
    let world = World::new().await;
    for lie in [
        "oversized",
        "garbage",
        "twice",
        "late",
        "escape",
        "count",
        "reset",
        "vanish",
    ] {
        let kills = world.daemon.count(Verb::Kill);
        let answer = world.run(&format!("out before\nlie {lie}")).await;
        let result = answer.ok();
        assert_eq!(result["status"], "sandbox_lost", "{lie}: {result}");
        let shown = result["stdout"]["text"].as_str().unwrap();
        assert!(shown.starts_with("before\n"), "{lie}: {shown}");
        assert_eq!(result["artifacts"], json!([]), "{lie}");
        // Whoever lies must not go on while what it left is looked at; whoever is gone needs no kill.
        let killed = world.daemon.count(Verb::Kill) - kills;
        let gone = matches!(lie, "reset" | "vanish");
        assert_eq!(killed, usize::from(!gone), "{lie}");
        world.until_empty().await;
    }
    world.works().await;
}

#[tokio::test]
async fn a_guest_that_falls_silent_before_the_program_starts_holds_nobody_for_long() {
    let world = Setup::greeted(Greeting::LastWords)
        .config("[pool]\nmax = 0\n")
        .start()
        .await;
    tokio::time::pause();
    let asked = tokio::time::Instant::now();
    let answer = world.run("out never").await;
    // A start may take longer where the guest answers.
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
    tokio::time::resume();
    assert_eq!(answer.ok()["status"], "sandbox_lost");
    world.until_empty().await;
}

#[tokio::test]
async fn a_sandbox_that_the_kernel_killed_is_out_of_memory() {
    let world = World::new().await;
    let call = world.begin_run("out before\nhang", json!({})).await;
    world.until_begun(0).await;
    // Its output is on the way by now or will never be.
    tokio::task::yield_now().await;
    let id = world.daemon.containers().pop().unwrap().id;
    world.daemon.die(&id, OomFlag::Set);
    let answer = call.answer().await;
    assert_eq!(answer.ok()["status"], "out_of_memory");
    assert_eq!(answer.ok()["peak_memory_bytes"], Value::Null);
}

#[tokio::test]
async fn what_the_caller_gives_reaches_the_program() {
    let world = World::new().await;
    let answer = world
        .run_with(
            "cat\nargs\nenv GREETING\nenv OMP_NUM_THREADS\nenv HOME\nshow a/in.txt\nshow b.bin",
            json!({
                "stdin": "from stdin\n",
                "args": ["-x", "two words", ""],
                "env": {"GREETING": "hi", "OMP_NUM_THREADS": "7"},
                "files": [{"path": "a/in.txt", "text": "text é"}, {"path": "b.bin", "base64": "AAEC"}],
                "network": "none",
            }),
        )
        .await;
    assert_eq!(
        answer.ok()["stdout"]["text"],
        "from stdin\n-x\ntwo words\n\nhi\n7\n/workspace/.home\ntext é\\x00\\x01\\x02"
    );
    assert_eq!(answer.ok()["stdout"]["escaped"], 3);
}

#[tokio::test]
async fn every_alias_leads_to_its_language() {
    let world = World::new().await;
    for (name, image) in [
        ("python3", "python"),
        ("Python", "python"),
        ("node", "javascript"),
        ("sh", "bash"),
    ] {
        let answer = world.run_with("out x", json!({"language": name})).await;
        let image = format!("belljar/{image}:latest");
        assert_eq!(answer.ok()["sandbox"]["image"], image, "{name}");
    }
}

#[tokio::test]
async fn new_files_are_artifacts_and_others_are_not() {
    let world = World::new().await;
    let answer = world
        .run_with(
            "file out/report.csv a,b\nfile .hidden x\nfile node_modules/x.js x\nfile __pycache__/x.pyc x\n\
             file .venv/x x\nexit 2",
            json!({"files": [{"path": "in.txt", "text": "input"}]}),
        )
        .await;
    let result = answer.ok();
    let artifacts = result["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 1, "{result}");
    let report = &artifacts[0];
    assert_eq!(report["path"], "out/report.csv");
    assert_eq!(report["bytes"], 3);
    assert_eq!(report["media_type"], "text/csv; charset=utf-8");
    let id = report["artifact_id"].as_str().unwrap();
    assert_eq!(report["uri"], format!("belljar://artifacts/{id}"));
    assert_eq!(report["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(result["artifacts_omitted"], 0);
}

#[tokio::test]
async fn what_is_left_out_is_counted() {
    let world = World::new().await;
    let many: String = (0..70).map(|at| format!("file f{at:02} {at}\n")).collect();
    let answer = world.run(&many).await;
    let result = answer.ok();
    assert_eq!(result["artifacts"].as_array().unwrap().len(), 64);
    assert_eq!(result["artifacts_omitted"], 6);
    assert!(answer.text().contains("6 more files were left out"));
}

#[tokio::test]
async fn past_the_queue_a_call_is_refused_and_nobody_hangs() {
    let world = Setup::new()
        .config("[concurrency]\nmax_sandboxes = 2\nqueue = 1\n[sessions]\nmax = 1")
        .start()
        .await;
    let mut running = Vec::new();
    for at in 0..2 {
        running.push(world.begin_run("hang", json!({})).await);
        world.until_begun(at).await;
    }
    let waits = world.begin_run("out waited", json!({})).await;
    // Both are read from one wire in order, yet handled side by side: one of the two waits, the other is refused.
    let other = world.begin_run("out waited", json!({})).await;
    let one_is_answered = || waits.is_answered() || other.is_answered();
    until("one of them is refused", one_is_answered).await;
    let (refused, waits) = if waits.is_answered() {
        (waits, other)
    } else {
        (other, waits)
    };
    let refused = refused.response().await;
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("are taken and 1 calls wait already"),
        "{text}"
    );
    assert_eq!(refused["result"]["isError"], true);
    for call in running {
        let cancel = json!({"requestId": call.id});
        world.client.notify("notifications/cancelled", cancel).await;
    }
    assert_eq!(waits.answer().await.ok()["stdout"]["text"], "waited\n");
    world.until_empty().await;
}

#[tokio::test]
async fn a_container_that_is_slow_to_go_holds_nobody_up() {
    let daemon = FakeDaemon::new();
    let world = Setup::on(daemon).start().await;
    world.works().await;
    world.until_empty().await;
    for _ in 0..2 {
        world
            .daemon
            .on(Verb::Remove, Cue::Fail(crate::harness::failure()));
    }
    world.works().await;
    world.until_empty().await;
    let removed = || world.daemon.count(Verb::Remove) >= 4;
    until("the removal was tried again", removed).await;
}

#[tokio::test]
async fn a_result_says_where_its_time_went_to_programs_alone() {
    const STAGES: [&str; 9] = [
        "queue", "lease", "install", "send", "start", "run", "drain", "collect", "reply",
    ];
    let world = World::new().await;
    let session = world.open(json!({})).await;
    for more in [json!({}), json!({"session": session})] {
        let run = world.run_with("out x\nsleep 30", more).await;
        let stages = &run.result["_meta"]["belljar/stages_ms"];
        let names: Vec<_> = stages.as_object().unwrap().keys().collect();
        assert_eq!(names, STAGES);
        for name in STAGES {
            assert!(stages[name].as_f64().unwrap() >= 0.0, "{name}");
        }
        assert!(!run.text().contains("stages"));
        assert!(!run.ok().to_string().contains("stages"));
    }
}
