//! Calls that do not come to their end: taken back, panicking, or caught by the end of the server.

use std::time::Duration;

use belljar::engine::fake::{Cue, FakeDaemon, Verb};
use serde_json::{Value, json};

use crate::{
    client::{Call, PATIENCE},
    harness::{Setup, World, until},
};

/// Nothing was sent for the call.
fn assert_silent(world: &World, call: &Call) {
    assert!(
        !call.is_answered(),
        "an answer to a call that was taken back"
    );
    assert_eq!(world.client.strays(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_run_that_is_taken_back_ends_in_silence() {
    let world = World::new().await;
    let call = world.begin_run("out before\nhang", json!({})).await;
    world.until_begun(0).await;
    world.cancel(&call).await;
    world.until_empty().await;
    let recorded = || !world.lines("run_code").is_empty();
    until("its end is recorded", recorded).await;
    assert_eq!(world.lines("run_code")[0]["outcome"]["status"], "cancelled");
    world.works().await;
    assert_silent(&world, &call);
}

#[tokio::test]
async fn a_guest_that_does_not_heed_the_kill_is_killed_from_outside() {
    let world = World::new().await;
    let call = world.begin_run("lie stubborn", json!({})).await;
    world.until_begun(0).await;
    world.cancel(&call).await;
    world.until_empty().await;
    assert!(world.daemon.count(Verb::Kill) > 0);
    world.works().await;
    assert_silent(&world, &call);
}

#[tokio::test]
async fn a_call_can_be_taken_back_while_its_container_is_made() {
    for verb in [Verb::Create, Verb::Attach, Verb::Start] {
        let world = World::new().await;
        world.works().await;
        world.until_empty().await;
        let before = world.daemon.count(verb);
        world
            .daemon
            .on(verb, Cue::Delay(Duration::from_millis(100)));
        let call = world.begin_run("out never", json!({})).await;
        let reached = || world.daemon.count(verb) > before;
        until("the launch is under way", reached).await;
        world.cancel(&call).await;
        let recorded = || world.lines("run_code").len() == 2;
        until("the refusal is recorded", recorded).await;
        world.until_empty().await;
        assert_eq!(world.lines("begin_run").len(), 1, "{verb:?}: it never ran");
        world.works().await;
        assert_silent(&world, &call);
    }
}

#[tokio::test]
async fn a_call_that_waits_for_its_turn_can_be_taken_back() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let running = world.begin_run("hang", json!({"session": session})).await;
    world.until_begun(0).await;
    let waiting = world
        .begin_run("out never", json!({"session": session}))
        .await;
    world.cancel(&waiting).await;
    let recorded = || world.lines("run_code").len() == 1;
    until("the refusal is recorded", recorded).await;
    world.cancel(&running).await;
    let next = world
        .run_with("out next", json!({"session": session}))
        .await;
    assert_eq!(
        next.ok()["stdout"]["text"],
        "next\n",
        "the session lives on"
    );
    assert_silent(&world, &running);
    assert_silent(&world, &waiting);
}

#[tokio::test]
async fn a_call_that_panics_is_answered_and_the_server_lives_on() {
    let world = World::new().await;
    // While the call itself waits for the daemon's verdict on a sandbox that vanished.
    world.daemon.on(Verb::Wait, Cue::Pass);
    world.works().await;
    while world.daemon.count(Verb::Wait) == 0 {
        world.run("lie vanish").await.ok();
    }
    world.daemon.on(Verb::Wait, Cue::Panic);
    let answer = world.run("lie vanish").await;
    assert!(
        answer.error().contains("failed inside belljar"),
        "{}",
        answer.error()
    );
    let last = world.lines("run_code").pop().unwrap();
    assert!(
        last["error"].as_str().unwrap().starts_with("internal: "),
        "{last}"
    );
    world.until_empty().await;
    world.works().await;
}

#[tokio::test]
async fn a_panic_in_the_middle_of_a_launch_is_answered_and_leaves_no_container() {
    for verb in [
        Verb::Image,
        Verb::Create,
        Verb::Inspect,
        Verb::Attach,
        Verb::Start,
    ] {
        let world = World::new().await;
        world.works().await;
        world.until_empty().await;
        world.daemon.on(verb, Cue::Panic);
        let answer = world.run("out never").await;
        assert!(
            answer.error().contains("a fault in belljar"),
            "{verb:?}: {}",
            answer.error()
        );
        world.until_empty().await;
        world.works().await;
    }
}

#[tokio::test]
async fn a_panic_in_a_session_costs_that_call_only() {
    let world = World::new().await;
    let other = world.open(json!({})).await;
    let session = world.open(json!({})).await;
    world.daemon.on(Verb::Wait, Cue::Panic);
    let answer = world
        .run_with("lie vanish", json!({"session": session}))
        .await;
    assert!(
        answer.error().contains("failed inside belljar"),
        "{}",
        answer.error()
    );
    let listed = world.tool("list_files", json!({"session": session})).await;
    assert!(listed.error().contains("lost"), "{}", listed.error());
    let listed = world.tool("list_files", json!({"session": other})).await;
    assert_eq!(listed.ok()["entries"], json!([]));
    world
        .tool("close_session", json!({"session": other}))
        .await
        .ok();
    world.until_empty().await;
}

#[tokio::test]
async fn calls_during_the_shutdown_are_answered_and_nothing_is_left() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    let fresh = world.begin_run("out before\nhang", json!({})).await;
    world.until_begun(0).await;
    let inside = world
        .begin_run("out before\nhang", json!({"session": session}))
        .await;
    world.until_begun(1).await;
    let waiting = world
        .begin_run("out never", json!({"session": session}))
        .await;
    world.broker.stop().await;
    assert_eq!(world.daemon.containers().len(), 0);
    for call in [fresh, inside] {
        let answer = call.answer().await;
        assert_eq!(answer.ok()["status"], "cancelled");
        assert_eq!(answer.ok()["stdout"]["text"], "before\n");
    }
    let waiting = waiting.answer().await;
    assert!(waiting.error().contains("stopping"), "{}", waiting.error());
    let created = world.created();
    for (tool, arguments) in [
        ("run_code", json!({"language": "python", "code": "out x"})),
        ("open_session", json!({"language": "python"})),
        ("list_files", json!({"session": session})),
        ("close_session", json!({"session": session})),
    ] {
        let refused = world.tool(tool, arguments).await;
        let text = refused.error();
        assert!(
            text.contains("stopping") || text.contains("shutting down"),
            "{tool}: {text}"
        );
    }
    assert_eq!(world.created(), created);
    let tools = world.client.request("tools/list", json!({})).await;
    assert!(tools["result"].is_object(), "lists are answered to the end");
}

#[tokio::test]
async fn a_launch_that_the_shutdown_meets_leaves_no_container() {
    let daemon = FakeDaemon::new();
    let world = Setup::on(daemon).start().await;
    world.works().await;
    world.until_empty().await;
    world
        .daemon
        .on(Verb::Start, Cue::Delay(Duration::from_millis(200)));
    let before = world.daemon.count(Verb::Start);
    let call = world.begin_run("out never", json!({})).await;
    let reached = || world.daemon.count(Verb::Start) > before;
    until("the launch is under way", reached).await;
    world.broker.stop().await;
    assert!(call.answer().await.error().contains("shutting down"));
    assert_eq!(world.daemon.containers().len(), 0);
    let instances = world.state.path().join("instances");
    assert_eq!(
        std::fs::read_dir(instances).unwrap().count(),
        0,
        "nothing to reap"
    );
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_server() {
    let world = World::new().await;
    world.begin_run("hang", json!({})).await;
    world.until_begun(0).await;
    world.client.close().await;
    // Running calls are given some seconds to end by themselves.
    tokio::time::pause();
    let World {
        broker,
        daemon,
        served,
        ..
    } = world;
    tokio::time::timeout(PATIENCE, served)
        .await
        .unwrap()
        .unwrap();
    broker.stop().await;
    assert_eq!(daemon.containers().len(), 0);
}

#[tokio::test]
async fn a_stop_ends_the_server() {
    let world = World::new().await;
    let session = world.open(json!({})).await;
    assert_eq!(session.len(), 32);
    world.stop.cancel();
    tokio::time::timeout(PATIENCE, world.served)
        .await
        .unwrap()
        .unwrap();
    world.broker.stop().await;
    assert_eq!(world.daemon.containers().len(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_before_it_says_anything_is_no_failure() {
    let (stream, parts) = Setup::new().serve();
    drop(stream);
    let (_, _, _, served, _) = parts;
    tokio::time::timeout(PATIENCE, served)
        .await
        .unwrap()
        .unwrap();
}
