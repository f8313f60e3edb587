//! Nothing stays: whatever ends, however it ends.

use std::{collections::HashMap, time::Duration};

use belljar::{
    engine::{Reaped, tether::message::ExitStatus},
    types::{InstanceId, LimitsRequest, SandboxId},
};
use bollard::{
    models::{ContainerStateStatusEnum, VolumeCreateRequest},
    query_parameters::{RemoveImageOptions, RemoveVolumeOptions, TagImageOptions},
};

use crate::support::{
    BASH, PYTHON, World, bash, client, container, containers, engine_in, permit, python, until,
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

/// A volume as servers make them when they bring the guest; `points_to` another, or filled by itself.
async fn guest_volume(name: &str, points_to: Option<&str>) {
    let mut labels = HashMap::from([("belljar.role".to_owned(), "guest-volume".to_owned())]);
    if let Some(target) = points_to {
        labels.insert("belljar.volume".to_owned(), target.to_owned());
    }
    let ask = VolumeCreateRequest {
        name: Some(name.to_owned()),
        labels: Some(labels),
        ..VolumeCreateRequest::default()
    };
    client().create_volume(ask).await.unwrap();
}

/// Another name of an image that stays: removing it takes the name alone.
async fn tag_as_seed(of: &InstanceId) -> String {
    let options = TagImageOptions {
        repo: Some("belljar/guest-seed".into()),
        tag: Some(of.to_string()),
    };
    client().tag_image(BASH, Some(options)).await.unwrap();
    format!("belljar/guest-seed:{of}")
}

#[tokio::test]
async fn what_a_killed_server_left_of_bringing_the_guest_is_removed_and_no_other_volume() {
    let world = World::new();
    // It never made a container: its file says of no daemon that it is the one.
    let dead = engine_in(world.state.path(), None);
    let dead_id = dead.instance().id().clone();
    drop(dead);
    let unknown = InstanceId::random();
    let version = SandboxId::random();
    let name = |of: &InstanceId| {
        let random = SandboxId::random();
        format!("belljar-guest-{version}-runc-{of}-{random}")
    };
    let (half, used) = (name(&dead_id), name(&dead_id));
    let live = name(world.engine.instance().id());
    let (others, pointer) = (name(&unknown), format!("belljar-guest-{version}-runc"));
    for volume in [&half, &used, &live, &others] {
        guest_volume(volume, None).await;
    }
    guest_volume(&pointer, Some(&used)).await;
    let seed = tag_as_seed(&dead_id).await;
    let other_seed = tag_as_seed(&unknown).await;

    let reaped = world.engine.reap().await.unwrap();
    assert_eq!((reaped.instances, reaped.failed), (1, 0));
    assert!(client().inspect_volume(&half).await.is_err());
    assert!(client().inspect_image(&seed).await.is_err());
    client().inspect_image(&other_seed).await.unwrap();
    for volume in [&pointer, &used, &live, &others] {
        client().inspect_volume(volume).await.unwrap();
        let options = None::<RemoveVolumeOptions>;
        client().remove_volume(volume, options).await.unwrap();
    }
    let options = None::<RemoveImageOptions>;
    client()
        .remove_image(&other_seed, options, None)
        .await
        .unwrap();
    world.engine.close().await;
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
