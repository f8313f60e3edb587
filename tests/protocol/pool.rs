//! Sandboxes that wait: had without the daemon, used once, replaced, and never the dead or the old.

use std::{collections::BTreeSet, time::Duration};

use belljar::engine::{
    daemon::OomFlag,
    fake::{Cue, FakeDaemon, Verb},
    scripted_guest::Greeting,
};
use serde_json::{Value, json};

use crate::harness::{Setup, World, failure, until};

/// A pool as it is by default.
const POOL: &str = "[pool]\n";

async fn pooled() -> World {
    with(POOL).await
}

async fn with(config: &str) -> World {
    Setup::new().config(config).start().await
}

impl World {
    async fn until_waiting(&self, count: usize) {
        let broker = &self.broker;
        until("sandboxes wait", || broker.waiting().all >= count).await;
    }

    /// The id of the one container there is.
    fn only(&self) -> String {
        let containers = self.daemon.containers();
        assert_eq!(containers.len(), 1, "{containers:?}");
        containers[0].id.clone()
    }

    /// Uses the pool once and waits for the replacement alone to be there.
    async fn warmed_up(&self) {
        assert_eq!(self.run("out first").await.ok()["status"], "exited");
        self.until_waiting(1).await;
        let daemon = &self.daemon;
        until("the used one is gone", || daemon.containers().len() == 1).await;
    }
}

fn containers(runs: &[Value]) -> BTreeSet<String> {
    runs.iter()
        .map(|run| run["run_id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn nothing_is_started_before_the_first_call() {
    let world = pooled().await;
    world.tool("list_files", json!({})).await;
    assert_eq!(world.created(), 0);
    assert_eq!(world.broker.waiting().all, 0);
}

#[tokio::test]
async fn a_run_from_one_that_waits_makes_no_call_to_the_daemon_before_its_result() {
    let world = pooled().await;
    world.warmed_up().await;
    world.daemon.stall(true);
    let run = world.run("out warm\nfile a.txt x").await;
    assert_eq!(run.ok()["stdout"]["text"], "warm\n");
    assert_eq!(run.ok()["sandbox"]["fresh"], true);
    assert_eq!(run.ok()["artifacts"][0]["path"], "a.txt");
    world.daemon.stall(false);
    world.until_waiting(1).await;
}

#[tokio::test]
async fn sessions_open_and_run_without_the_daemon_too() {
    let world = pooled().await;
    world.warmed_up().await;
    world.daemon.stall(true);
    let session = world.open(json!({})).await;
    for text in ["one", "two"] {
        let run = world
            .run_with(&format!("out {text}"), json!({"session": session}))
            .await;
        assert_eq!(run.ok()["stdout"]["text"], format!("{text}\n"));
    }
    world.daemon.stall(false);
}

#[tokio::test]
async fn no_sandbox_serves_two_calls() {
    let world = pooled().await;
    let mut runs = Vec::new();
    for round in 0..12 {
        let run = world.run("show left\nfile left behind").await;
        assert_eq!(run.ok()["stdout"]["text"], "", "round {round}");
        runs.push(run.ok().clone());
    }
    assert_eq!(containers(&runs).len(), runs.len());
}

#[tokio::test]
async fn a_hundred_calls_at_once_are_answered_or_refused_and_leave_nothing() {
    let world = with("[pool]\nmax = 4\n[concurrency]\nmax_sandboxes = 8\nqueue = 64\n").await;
    world.warmed_up().await;
    let mut calls = Vec::new();
    for at in 0..100 {
        calls.push(world.begin_run(&format!("out {at}"), json!({})).await);
    }
    let (mut done, mut refused) = (Vec::new(), 0);
    for (at, call) in calls.into_iter().enumerate() {
        let answer = call.answer().await;
        match answer.refusal() {
            None => {
                assert_eq!(answer.ok()["stdout"]["text"], format!("{at}\n"));
                done.push(answer.ok().clone());
            }
            Some(text) => {
                assert!(text.contains("try again later"), "{text}");
                refused += 1;
            }
        }
    }
    assert_eq!(containers(&done).len(), done.len(), "one container a call");
    assert!(done.len() >= 72 && done.len() + refused == 100, "{refused}");
    world.works().await;
    world.broker.stop().await;
    world.until_empty().await;
}

#[tokio::test]
async fn more_wait_after_a_rush_and_no_more_than_the_operator_allows() {
    let world = with("[pool]\nmax = 3\n").await;
    let mut calls = Vec::new();
    for _ in 0..6 {
        calls.push(world.begin_run("out x", json!({})).await);
    }
    for call in calls {
        call.answer().await.ok();
    }
    world.until_waiting(3).await;
    let daemon = &world.daemon;
    until("no more than those are left", || {
        daemon.containers().len() == 3
    })
    .await;
    assert_eq!(world.broker.waiting().all, 3);
}

#[tokio::test]
async fn no_more_wait_than_the_daemons_machine_can_hold() {
    let daemon = FakeDaemon::new();
    daemon.change_info(|info| info.memory_bytes = 256 << 20);
    let setup = Setup::on(daemon).config("[pool]\nmin = 4\n");
    let world = setup.start().await;
    world.works().await;
    world.until_waiting(2).await;
    let daemon = &world.daemon;
    until("no more than those are left", || {
        daemon.containers().len() == 2
    })
    .await;
    world.works().await;
}

#[tokio::test]
async fn a_pool_that_is_switched_off_keeps_nothing() {
    let world = with("[pool]\nmax = 0\n").await;
    world.works().await;
    world.until_empty().await;
    assert_eq!(world.created(), 2, "the seed of the guest, and the run's");
}

#[tokio::test]
async fn the_operators_least_waits_from_the_start_where_it_is_asked_for() {
    let world = with("[pool]\nmin = 2\nlanguages = [\"python\", \"bash\"]\n").await;
    assert_eq!(world.created(), 0);
    world.broker.stock();
    world.until_waiting(4).await;
    world.daemon.stall(true);
    world.works().await;
    let bash = json!({"language": "bash"});
    assert_eq!(world.run_with("out b", bash).await.ok()["status"], "exited");
    world.daemon.stall(false);
    world.until_waiting(4).await;
}

#[tokio::test]
async fn the_dead_are_never_handed_out() {
    let world = pooled().await;
    world.warmed_up().await;
    let dead = world.only();
    world.daemon.die(&dead, OomFlag::Clear);
    world.works().await;
    let daemon = &world.daemon;
    until("the dead one is removed", || {
        daemon
            .containers()
            .iter()
            .all(|container| container.id != dead)
    })
    .await;
    world.until_waiting(1).await;
}

#[tokio::test]
async fn one_that_does_not_answer_any_more_is_not_handed_out() {
    let setup = Setup::greeted(Greeting::NoPongs).config(POOL);
    let world = setup.start().await;
    world.warmed_up().await;
    let mute = world.only();
    let daemon = &world.daemon;
    until("the mute one is removed", || {
        daemon
            .containers()
            .iter()
            .all(|container| container.id != mute)
    })
    .await;
    world.works().await;
}

#[tokio::test]
async fn a_daemon_that_restarts_takes_those_that_wait_with_it_and_calls_go_on() {
    let world = with("[pool]\nmin = 3\n").await;
    world.works().await;
    world.until_waiting(3).await;
    world.daemon.restart();
    world.works().await;
    world.until_waiting(3).await;
    let run = world.run("out again").await;
    assert_eq!(run.ok()["stdout"]["text"], "again\n");
}

#[tokio::test]
async fn a_rebuilt_image_is_what_new_runs_get() {
    let world = pooled().await;
    world.warmed_up().await;
    let old = world.only();
    let followed = || world.daemon.count(Verb::ImageChanges) > 0;
    until("changes are followed", followed).await;
    world.daemon.add_image("belljar/python:latest");
    let daemon = &world.daemon;
    until("the old one is gone", || {
        daemon
            .containers()
            .iter()
            .all(|container| container.id != old)
    })
    .await;
    world.works().await;
    let ids: BTreeSet<String> = world
        .lines("run_code")
        .iter()
        .map(|line| line["image_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2, "the first run's image and the last one's");
}

#[tokio::test]
async fn an_image_that_is_removed_takes_those_that_wait_with_it_and_a_call_is_told() {
    let world = pooled().await;
    world.warmed_up().await;
    let followed = || world.daemon.count(Verb::ImageChanges) > 0;
    until("changes are followed", followed).await;
    world.daemon.forget_image("belljar/python:latest");
    world.until_empty().await;
    assert_eq!(world.broker.waiting().all, 0);
    let refused = world.run("out x").await;
    let text = refused.refusal().unwrap();
    assert!(text.contains("belljar images build python"), "{text}");
    world.daemon.add_image("belljar/python:latest");
    world.works().await;
}

#[tokio::test]
async fn what_is_being_started_of_an_image_that_is_removed_does_not_wait() {
    let world = pooled().await;
    world.warmed_up().await;
    let followed = || world.daemon.count(Verb::ImageChanges) > 0;
    until("changes are followed", followed).await;
    let started = world.daemon.count(Verb::Start);
    let slow = Cue::Delay(Duration::from_millis(400));
    world.daemon.on(Verb::Start, slow);
    world.works().await;
    let begun = || world.daemon.count(Verb::Start) > started;
    until("the next one is being started", begun).await;
    world.daemon.forget_image("belljar/python:latest");
    world.until_empty().await;
    assert_eq!(world.broker.waiting().all, 0);
    assert!(world.run("out x").await.refusal().is_some());
}

#[tokio::test]
async fn more_of_something_raises_one_that_waits() {
    let world = pooled().await;
    world.warmed_up().await;
    let created = world.created();
    let limits = json!({"limits": {"memory_mib": 1024, "cpus": 2, "pids": 200}});
    // The replacement must not be mistaken for the run's own.
    world
        .daemon
        .on(Verb::Create, Cue::Delay(Duration::from_secs(5)));
    let run = world.run_with("out raised", limits).await;
    assert_eq!(run.ok()["stdout"]["text"], "raised\n");
    let line = world.lines("run_code").pop().unwrap();
    assert_eq!(line["limits"]["memory_mib"], 1024);
    assert_eq!(world.daemon.count(Verb::Update), 1);
    let replacement = world.created() - created;
    assert!(replacement <= 1, "{replacement}");
}

#[tokio::test]
async fn less_of_something_or_another_workspace_gets_one_of_its_own() {
    let world = pooled().await;
    world.warmed_up().await;
    for limits in [
        json!({"memory_mib": 128}),
        json!({"workspace_mib": 512}),
        json!({"workspace_mib": 16, "memory_mib": 1024}),
        json!({"pids": 32}),
    ] {
        let created = world.created();
        let run = world.run_with("out own", json!({"limits": limits})).await;
        assert_eq!(run.ok()["status"], "exited");
        assert!(world.created() > created, "{limits}");
    }
    assert_eq!(world.daemon.count(Verb::Update), 0);
    assert_eq!(world.broker.waiting().all, 1, "it waits on");
}

#[tokio::test]
async fn one_that_cannot_be_raised_as_asked_is_destroyed_and_another_one_made() {
    for cue in [
        (Verb::Update, Cue::Fail(failure())),
        (
            Verb::Inspect,
            Cue::Tamper(Box::new(|found| found.spec.host.pids_limit = -1)),
        ),
    ] {
        let world = pooled().await;
        world.warmed_up().await;
        let waiting = world.only();
        world.daemon.on(cue.0, cue.1);
        let more = json!({"limits": {"memory_mib": 1024}});
        let run = world.run_with("out x", more).await;
        assert_eq!(run.ok()["status"], "exited");
        let daemon = &world.daemon;
        until("it is destroyed", || {
            daemon
                .containers()
                .iter()
                .all(|container| container.id != waiting)
        })
        .await;
    }
}

#[tokio::test]
async fn a_start_for_later_that_fails_is_not_repeated_without_end() {
    let daemon = FakeDaemon::new();
    // The seed of the guest's volume and the call's own.
    daemon.on(Verb::Create, Cue::Pass);
    daemon.on(Verb::Create, Cue::Pass);
    for _ in 0..100 {
        daemon.on(Verb::Create, Cue::Fail(failure()));
    }
    let world = Setup::on(daemon).config(POOL).start().await;
    assert_eq!(world.run("out x").await.ok()["status"], "exited");
    until("it is tried", || world.created() > 2).await;
    // Without a rest between them there would be as many as fit.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let attempts = world.created() - 2;
    assert!(attempts < 20, "{attempts}");
}

#[tokio::test]
async fn a_call_that_is_taken_back_while_it_waits_leaves_nothing_behind() {
    let world = pooled().await;
    world.warmed_up().await;
    world.daemon.stall(true);
    // The first takes the one that waits; the second waits for one that never comes.
    let first = world.begin_run("hang", json!({})).await;
    world.until_begun(1).await;
    let second = world.begin_run("out never", json!({})).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.cancel(&second).await;
    world.cancel(&first).await;
    world.daemon.stall(false);
    world.works().await;
    world.broker.stop().await;
    world.until_empty().await;
}

#[tokio::test]
async fn the_end_of_the_server_is_the_end_of_those_that_wait() {
    let world = with("[pool]\nmin = 4\n").await;
    world.works().await;
    world.until_waiting(4).await;
    world.broker.stop().await;
    world.until_empty().await;
    assert_eq!(world.broker.waiting().all, 0);
}

#[tokio::test]
async fn the_end_of_the_server_while_the_pool_fills_leaves_nothing() {
    let world = with("[pool]\nmin = 4\n").await;
    for _ in 0..4 {
        world
            .daemon
            .on(Verb::Start, Cue::Delay(Duration::from_millis(150)));
    }
    world.works().await;
    world.broker.stop().await;
    world.until_empty().await;
}

#[tokio::test]
async fn a_call_does_not_suffer_for_a_start_that_began_before_it() {
    let world = pooled().await;
    world.warmed_up().await;
    let created = world.created();
    let slow = Cue::Delay(Duration::from_millis(300));
    world.daemon.on(Verb::Create, slow);
    world.daemon.on(Verb::Start, Cue::Fail(failure()));
    // It takes the one that waits; the next one is begun, slowly and in vain.
    world.works().await;
    until("the next one is begun", || world.created() > created).await;
    world.works().await;
}

#[tokio::test]
async fn starts_that_hang_hold_up_nobody() {
    let world = Setup::new().start().await;
    world.works().await;
    world.until_empty().await;
    // As many as are under way at a time, all of calls that are taken back.
    let hour = Duration::from_hours(1);
    for _ in 0..8 {
        world.daemon.on(Verb::Create, Cue::Delay(hour));
    }
    let created = world.created();
    let mut calls = Vec::new();
    for _ in 0..8 {
        calls.push(world.begin_run("out never", json!({})).await);
    }
    until("they hang", || world.created() == created + 8).await;
    // What is waited for would take half a minute.
    tokio::time::pause();
    assert_eq!(world.run("out now").await.ok()["stdout"]["text"], "now\n");
    tokio::time::resume();
    world.broker.stop().await;
}
