//! A daemon that fails at each step of a launch: a clear error, no program run, no container left.

use belljar::engine::{
    daemon::DaemonError,
    fake::{Cue, FakeDaemon, Verb, scripted},
    scripted_guest::Greeting,
};
use serde_json::json;

use crate::harness::{Setup, World, down, failure, until};

/// The next run fails with these words, leaves nothing, and the one after it succeeds.
async fn fails_once(world: &World, cue: (Verb, Cue), words: &[&str]) {
    world.works().await;
    world.until_empty().await;
    let runs = world.lines("begin_run").len();
    let (verb, cue) = cue;
    world.daemon.on(verb, cue);
    let answer = world.run("out never").await;
    for word in words {
        assert!(
            answer.error().contains(word),
            "{verb:?}: {}",
            answer.error()
        );
    }
    world.until_empty().await;
    assert_eq!(
        world.lines("begin_run").len(),
        runs,
        "{verb:?}: nothing ran"
    );
    let last = world.lines("run_code").pop().unwrap();
    assert_eq!(last["decision"]["verdict"], "allow", "{verb:?}");
    assert!(last["error"].is_string(), "{verb:?}: {last}");
    world.works().await;
}

#[tokio::test]
async fn each_step_may_fail() {
    let world = World::new().await;
    for (verb, words) in [
        (Verb::Image, "on cue"),
        (Verb::Create, "on cue"),
        (Verb::Inspect, "on cue"),
        (Verb::Attach, "on cue"),
        (Verb::Start, "did not start"),
    ] {
        fails_once(&world, (verb, Cue::Fail(failure())), &[words]).await;
        // A daemon that refuses to create has created nothing.
        if verb != Verb::Create {
            fails_once(&world, (verb, Cue::FailAfter(failure())), &[words]).await;
        }
        fails_once(
            &world,
            (verb, Cue::Fail(down())),
            &["no Docker daemon answers", "belljar doctor"],
        )
        .await;
    }
}

#[tokio::test]
async fn a_limit_that_the_daemon_cannot_apply_is_no_sandbox() {
    let world = World::new().await;
    let warning =
        "Your kernel does not support pids limit capabilities or the cgroup is not mounted.";
    let cue = (Verb::Create, Cue::Warn(warning.to_owned()));
    fails_once(
        &world,
        cue,
        &[
            "cannot make the sandbox as asked",
            "pids limit",
            "belljar doctor",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_container_that_differs_from_what_was_asked_never_starts() {
    let world = World::new().await;
    world.works().await;
    let started = world.daemon.count(Verb::Start);
    let cue = Cue::Tamper(Box::new(|found| found.spec.user = "0:0".to_owned()));
    fails_once(
        &world,
        (Verb::Inspect, cue),
        &["differs from what was asked", "nothing ran"],
    )
    .await;
    assert_eq!(
        world.daemon.count(Verb::Start),
        started + 2,
        "only those before and after it"
    );
}

#[tokio::test]
async fn an_answer_that_comes_too_late_leaves_no_container_at_the_end() {
    let world = World::new().await;
    world.works().await;
    let late = DaemonError::Timeout {
        call: "create container",
        seconds: 30,
    };
    world.daemon.on(Verb::Create, Cue::FailAfter(late));
    let answer = world.run("out never").await;
    assert!(answer.error().contains("within 30 s"), "{}", answer.error());
    world.works().await;
    world.broker.stop().await;
    assert_eq!(world.daemon.containers().len(), 0);
}

#[tokio::test]
async fn a_guest_that_does_not_greet_is_given_up() {
    for (greeting, words) in [
        (Greeting::Silent, "the sandbox's guest failed"),
        (Greeting::OtherProtocol, "the sandbox's guest failed"),
        (Greeting::OpensStream, "the sandbox's guest failed"),
    ] {
        let world = Setup::greeted(greeting).start().await;
        let call = world.begin_run("out never", json!({})).await;
        let begun = || world.daemon.count(Verb::Start) > 0;
        until("the container starts", begun).await;
        // What is waited for would take seconds.
        tokio::time::pause();
        let answer = call.answer().await;
        tokio::time::resume();
        assert!(
            answer.error().contains(words),
            "{greeting:?}: {}",
            answer.error()
        );
        world.until_empty().await;
    }
}

#[tokio::test]
async fn a_guest_of_another_uid_is_not_trusted() {
    let daemon = FakeDaemon::with_guest(|uid, stream| scripted(Greeting::Proper, uid + 1, stream));
    let world = Setup::on(daemon).start().await;
    let answer = world.run("out never").await;
    assert!(answer.error().contains("uid inside"), "{}", answer.error());
    world.until_empty().await;
}

#[tokio::test]
async fn what_a_daemon_or_image_says_stays_bounded_and_without_tricks() {
    let world = World::new().await;
    world.works().await;
    world.until_empty().await;
    let why = format!("\u{202e}\u{1b}[2J{}", "x".repeat(1_000_000));
    for cue in [
        Cue::Warn(why.clone()),
        Cue::Tamper(Box::new(move |found| found.spec.user = why)),
    ] {
        let verb = if matches!(cue, Cue::Warn(_)) {
            Verb::Create
        } else {
            Verb::Inspect
        };
        world.daemon.on(verb, cue);
        let answer = world.run("out never").await;
        let text = answer.error();
        assert!(text.len() < 2000, "{}", text.len());
        assert!(!text.contains(['\u{202e}', '\u{1b}']), "{text}");
        world.until_empty().await;
    }
}

#[tokio::test]
async fn a_session_whose_container_cannot_be_had_is_none() {
    let world = Setup::new().config("[sessions]\nmax = 1").start().await;
    world.works().await;
    for _ in 0..3 {
        world.daemon.on(Verb::Create, Cue::Fail(failure()));
        let refused = world
            .tool("open_session", json!({"language": "python"}))
            .await;
        assert!(refused.error().contains("on cue"));
    }
    // Its place is free again.
    world.open(json!({})).await;
}
