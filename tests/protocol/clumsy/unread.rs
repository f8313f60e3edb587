//! Clients that write and do not read: nothing stalls but their own writing, and nothing is lost that they may still
//! read.

use std::collections::BTreeSet;

use belljar::transport::stdio::STALL;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::{Raw, call, request, run};
use crate::client::PATIENCE;

/// How many of them.
const REQUESTS: u64 = 10_000;

#[tokio::test]
async fn ten_thousand_requests_are_taken_in_and_each_is_answered_once() {
    let mut raw = Raw::new().await;
    let writing = async {
        for id in 1..=REQUESTS {
            let message = match id % 100 {
                0 => run(id, "out here"),
                1..5 => call(id, "list_files", json!({"session": "none"})),
                _ => request(id, "ping", json!({})),
            };
            let line = message.to_string() + "\n";
            raw.write.write_all(line.as_bytes()).await.unwrap();
        }
    };
    // Nobody reads meanwhile.
    let written = tokio::time::timeout(5 * PATIENCE, writing).await;
    assert!(written.is_ok(), "the client can write all of them");
    let mut answered = BTreeSet::new();
    for _ in 0..REQUESTS {
        let answer = raw.next().await;
        assert!(
            answer["result"].is_object() || answer["error"]["code"] == -32000,
            "{answer}"
        );
        assert!(answered.insert(answer["id"].as_u64().unwrap()), "{answer}");
    }
    raw.pings().await;
}

#[tokio::test]
async fn a_run_ends_and_is_kept_though_nobody_reads_its_answer() {
    let mut raw = Raw::new().await;
    // More than the wire holds lies before it.
    for id in 10..40 {
        raw.ask(id, "tools/list", json!({})).await;
    }
    raw.run(1, "flood 4000000\nfile kept x").await;
    let (broker, daemon, state, ..) = &raw.parts;
    let log = belljar::audit::Logs::open(state.path().join("audit"));
    let ended = || {
        let lines = serde_json::to_string(&log.tail(usize::MAX).unwrap()).unwrap();
        lines.contains("\"action\":\"run_code\"")
    };
    crate::harness::until("its end is recorded", ended).await;
    crate::harness::until("its container is gone", || daemon.containers().is_empty()).await;
    let kept = broker
        .artifacts(&belljar::types::Caller::Local, None, 10)
        .await;
    assert!(!kept.unwrap().0.is_empty(), "what it left is kept");
    let answer = loop {
        let answer = raw.next().await;
        if answer["id"] == 1 {
            break answer;
        }
    };
    assert_eq!(answer["result"]["structuredContent"]["status"], "exited");
}

#[tokio::test]
async fn many_large_answers_wait_for_their_client_one_after_another() {
    let mut raw = Raw::new().await;
    raw.run(1, "flood 3000000").await;
    let answer = raw.next().await;
    let id = &answer["result"]["structuredContent"]["stdout"]["artifact_id"];
    assert!(id.is_string(), "{answer:.1000}");
    for at in 100..130 {
        let piece = json!({"artifact_id": id, "length": 4 << 20});
        raw.say(&call(at, "fetch_artifact", piece)).await;
    }
    let mut answered = BTreeSet::new();
    for _ in 0..30 {
        let answer = raw.next().await;
        assert_eq!(answer["result"]["isError"], false, "{answer:.300}");
        answered.insert(answer["id"].as_u64().unwrap());
    }
    assert_eq!(answered.len(), 30);
    raw.pings().await;
}

#[tokio::test]
async fn a_client_that_is_stuck_in_its_writing_is_given_up_in_the_end() {
    let Raw {
        mut write,
        read,
        parts,
    } = Raw::new().await;
    let (broker, daemon, _, served, _) = parts;
    let writing = tokio::spawn(async move {
        for id in 1..100_000 {
            let line = request(id, "tools/list", json!({})).to_string() + "\n";
            if write.write_all(line.as_bytes()).await.is_err() {
                return id;
            }
        }
        panic!("the server read on, though nobody reads its answers");
    });
    tokio::time::pause();
    tokio::time::timeout(100 * STALL, served)
        .await
        .expect("it ends")
        .unwrap();
    tokio::time::resume();
    let taken_in = writing.await.unwrap();
    assert!(taken_in < 10_000, "{taken_in} requests were taken in");
    broker.stop().await;
    assert_eq!(daemon.containers().len(), 0);
    drop(read);
}

#[tokio::test]
async fn calls_beyond_what_may_be_under_way_are_refused_and_can_be_taken_back() {
    let mut raw = Raw::new().await;
    let stdin = "x".repeat(8 << 20);
    let calls = 100..116;
    for id in calls.clone() {
        let arguments = json!({"language": "python", "code": "hang", "stdin": "STDIN"});
        let line = call(id, "run_code", arguments).to_string();
        raw.line(line.replace("STDIN", &stdin)).await;
    }
    for _ in 0..2 {
        let answer = raw.next().await;
        assert_eq!(answer["error"]["code"], -32000, "{answer:.300}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("Wait for an answer"), "{message}");
    }
    for id in calls {
        raw.say(&super::take_back(&json!(id))).await;
    }
    // There is room again once they have ended.
    loop {
        raw.ask("end", "ping", json!({})).await;
        let answer = raw.next().await;
        if answer["id"] == "end" && answer["result"].is_object() {
            break;
        }
    }
}
