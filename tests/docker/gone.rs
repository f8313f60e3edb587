//! Nothing stays: whatever ends, however it ends.

use std::time::Duration;

use belljar::{
    engine::{Reaped, tether::message::ExitStatus},
    types::LimitsRequest,
};
use bollard::models::ContainerStateStatusEnum;

use crate::support::{
    BASH, PYTHON, World, bash, container, containers, engine_in, permit, python, until,
};

#[tokio::test]
async fn a_destroyed_sandbox_and_a_dropped_one_are_gone() {
    let world = World::new();
    let (first, second) = tokio::join!(world.launch(BASH), world.launch(BASH));
    let label = format!("belljar.instance={}", world.engine.instance().id());
    assert_eq!(containers(&label).await.len(), 2);
    first.destroy().await.unwrap();
    assert_eq!(containers(&label).await.len(), 1);
    drop(second);
    until("the dropped one is gone", || async {
        containers(&label).await.is_empty()
    })
    .await;
    world.engine.close().await;
}

#[tokio::test]
async fn a_launch_whose_caller_went_away_leaves_nothing() {
    let world = World::new();
    world.launch(BASH).await.destroy().await.unwrap();
    let label = format!("belljar.instance={}", world.engine.instance().id());
    for millis in [1, 20, 60, 120, 200, 300] {
        let _ = tokio::time::timeout(Duration::from_millis(millis), world.launch(BASH)).await;
    }
    world.engine.close().await;
    assert!(containers(&label).await.is_empty());
}

/// As SIGKILL does: the process's sockets close and nothing else happens.
#[test]
fn a_server_that_dies_leaves_nothing_running_and_the_next_one_cleans_up() {
    let world = World::new();
    let label = format!("belljar.instance={}", world.engine.instance().id());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sandbox = runtime.block_on(async {
        let sandbox = world.launch(BASH).await;
        bash(&sandbox, "(setsid sleep 1000 &) ; echo started")
            .await
            .ok();
        sandbox
    });
    runtime.shutdown_background();
    // Without a runtime dropping schedules nothing.
    drop(sandbox);
    let World { state, engine } = world;

    let after = tokio::runtime::Runtime::new().unwrap();
    after.block_on(async {
        until("the container has ended by itself", || async {
            let found = containers(&label).await;
            found.iter().all(|container| {
                let status = container.state.as_ref().unwrap().status;
                status == Some(ContainerStateStatusEnum::EXITED)
            })
        })
        .await;
        assert_eq!(containers(&label).await.len(), 1);
        let next = engine_in(state.path(), None);
        assert_eq!(
            next.reap().await.unwrap(),
            Reaped::default(),
            "its lock is held"
        );
        drop(engine);
        let reaped = next.reap().await.unwrap();
        assert_eq!(
            (reaped.instances, reaped.containers, reaped.failed),
            (1, 1, 0)
        );
        assert!(containers(&label).await.is_empty());
        next.close().await;
    });
}

#[tokio::test]
async fn close_removes_what_is_left_by_force() {
    let world = World::new();
    let label = format!("belljar.instance={}", world.engine.instance().id());
    std::mem::forget(world.launch(BASH).await);
    world.engine.close().await;
    assert!(containers(&label).await.is_empty());
    let files = std::fs::read_dir(world.state.path().join("instances")).unwrap();
    assert_eq!(files.count(), 0);
}

#[tokio::test]
async fn an_out_of_memory_kill_is_reported_by_guest_and_daemon() {
    let world = World::new();
    let limits = LimitsRequest {
        memory_mib: Some(64),
        workspace_mib: Some(1),
        ..LimitsRequest::default()
    };
    let sandbox = world.engine.launch(&permit(PYTHON, limits)).await.unwrap();
    let ran = python(&sandbox, "x = bytearray(10**9)").await;
    assert_eq!(ran.exit.status, ExitStatus::Signal(9));
    assert!(ran.exit.oom_kills >= 1, "{ran:?}");
    assert_eq!(
        python(&sandbox, "print('alive')").await.ok(),
        "alive\n",
        "PID 1 survives"
    );
    sandbox.kill().await.unwrap();
    sandbox.lost().await;
    // Docker 20.10 sets its flag when the container ends.
    assert!(sandbox.oom_killed_by_daemon().await, "the daemon's flag");
    sandbox.destroy().await.unwrap();

    let calm = world.launch(BASH).await;
    calm.kill().await.unwrap();
    calm.lost().await;
    assert!(
        !calm.oom_killed_by_daemon().await,
        "a kill of ours is no OOM"
    );
    calm.destroy().await.unwrap();
    world.engine.close().await;
}

#[tokio::test]
async fn facts_describe_the_daemon() {
    let world = World::new();
    world.launch(BASH).await.destroy().await.unwrap();
    let references = [BASH.to_owned(), "belljar-test:missing".to_owned()];
    let facts = world.engine.facts(&references).await.unwrap();
    assert!(!facts.version.engine.is_empty() && !facts.version.api.is_empty());
    assert!(!facts.info.kernel.is_empty() && !facts.info.cgroup_version.is_empty());
    assert!(
        facts.info.has_security("seccomp"),
        "{:?}",
        facts.info.security_options
    );
    assert!(
        facts.version.components.contains_key("runc"),
        "{:?}",
        facts.version
    );
    assert!(!facts.place.why.is_empty());
    assert!(facts.guest_volume.is_some());
    assert!(facts.images[0].found.is_some());
    assert!(facts.images[1].found.is_none());
    let sandbox = world.launch(BASH).await;
    let found = container(&sandbox).await;
    assert_eq!(
        found.image.as_deref(),
        facts.images[0].found.as_ref().map(|found| found.0.as_str())
    );
    drop(sandbox);
    world.engine.close().await;
}
