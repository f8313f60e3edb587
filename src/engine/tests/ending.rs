//! How a server ends, and what the next one does about it.

use super::*;

#[tokio::test]
async fn close_removes_what_nobody_gave_back_and_its_instance_file() {
    let world = World::new();
    std::mem::forget(world.launch().await.unwrap());
    assert_eq!(world.instance_files(), 1);
    world.engine.close().await;
    assert!(world.daemon.containers().is_empty());
    assert_eq!(world.instance_files(), 0);
    assert!(matches!(world.launch().await, Err(EngineError::Closed)));
}

#[tokio::test]
async fn close_asks_nothing_of_a_daemon_that_was_never_used() {
    let world = World::new();
    world.engine.close().await;
    assert_eq!(world.daemon.calls(), []);
    assert_eq!(world.instance_files(), 0);
}

#[tokio::test]
async fn reap_removes_the_dead_s_containers_and_nobody_else_s() {
    let world = World::new();
    let dead = engine_on(&world.daemon, world.state.path());
    std::mem::forget(dead.launch(&permit(IMAGE)).await.unwrap());
    let dead_id = dead.instance().id().clone();
    let other_state = tempfile::tempdir().unwrap();
    let other = engine_on(&world.daemon, other_state.path());
    let _kept_by_other = other.launch(&permit(IMAGE)).await.unwrap();
    let _kept = world.launch().await.unwrap();
    forge(&world.daemon, "postgres", &dead_id).await;
    forge(
        &world.daemon,
        &format!("belljar-{}-9", InstanceId::random()),
        &dead_id,
    )
    .await;
    assert_eq!(
        world.engine.reap().await.unwrap(),
        Reaped::default(),
        "it lives"
    );

    // As a process that ends: its lock is free, its containers are there.
    drop(dead);
    let mut reaped = Reaped::default();
    for _ in 0..200 {
        reaped = world.engine.reap().await.unwrap();
        if reaped.instances > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        reaped,
        Reaped {
            instances: 1,
            containers: 1,
            failed: 0
        }
    );
    assert_eq!(world.daemon.containers().len(), 4);
    // What the daemon was making when the server ended may appear only now.
    forge(&world.daemon, &format!("belljar-{dead_id}-77"), &dead_id).await;
    let reaped = world.engine.reap().await.unwrap();
    assert_eq!((reaped.instances, reaped.containers), (1, 1));
    // Forgotten once it has been known to have ended for long enough.
    let files = world.state.path().join("instances");
    let mark = files.join(format!("{dead_id}.ended"));
    let mark = std::fs::File::options().write(true).open(mark).unwrap();
    let long_ago = crate::types::clock::file_clock() - 2 * deadline::SETTLED;
    mark.set_modified(long_ago).unwrap();
    world.engine.reap().await.unwrap();
    assert_eq!(world.instance_files(), 1);
    assert_eq!(world.engine.reap().await.unwrap(), Reaped::default());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_while_the_daemon_makes_a_container_leaves_its_name_behind() {
    let world = World::new();
    drop(world.launch().await.unwrap());
    world.until_empty().await;
    let slow = 2 * deadline::CLOSE;
    world.daemon.on(Verb::Create, Cue::Delay(slow));
    let engine = world.engine.clone();
    let launch = tokio::spawn(async move { engine.launch(&permit(IMAGE)).await.map(|_| ()) });
    until_called(&world.daemon, Verb::Create, 3).await;
    world.engine.close().await;
    assert_eq!(world.instance_files(), 1, "the next start must find it");
    let _ = launch.await;
}

async fn until_called(daemon: &FakeDaemon, verb: Verb, times: usize) {
    while daemon.count(verb) < times {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// As with an hour to wait: what waits is told by a clock that only these tests move.
async fn until_gone(world: &World, name: &str) {
    for _ in 0..3600 {
        let all = world.daemon.containers();
        if !all.iter().any(|listed| listed.name == name) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("left behind: {:?}", world.daemon.containers());
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_making_was_not_confirmed_goes_while_the_server_lives() {
    let world = World::new();
    let kept = world.launch().await.unwrap();
    let down = DaemonError::Unreachable {
        endpoint: "test".into(),
        why: "cut".into(),
    };
    for error in [timeout(), failure(), down] {
        world.daemon.on(Verb::Create, Cue::FailAfter(error));
        world.launch().await.unwrap_err();
        let all = world.daemon.containers();
        let kept = container_of(&world, &kept).name;
        let late = all.iter().find(|listed| listed.name != kept).unwrap();
        until_gone(&world, &late.name).await;
    }
    let left = world.daemon.containers();
    assert_eq!(left.len(), 1, "what somebody has stays: {left:?}");
    kept.destroy().await.unwrap();
    // It has looked for long enough: the daemon is left alone, and what follows at the end is nothing.
    tokio::time::sleep(4 * deadline::SETTLED).await;
    let looks = world.daemon.count(Verb::List);
    tokio::time::sleep(4 * deadline::SETTLED).await;
    assert_eq!(world.daemon.count(Verb::List), looks);
    world.engine.close().await;
    assert_eq!(world.instance_files(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_for_longer_than_it_is_tried_is_made_up_for() {
    let world = World::new();
    let kept = world.launch().await.unwrap();
    let sandbox = world.launch().await.unwrap();
    let name = container_of(&world, &sandbox).name;
    for _ in 0..20 {
        world.daemon.on(Verb::Remove, Cue::Fail(failure()));
    }
    sandbox.destroy().await.unwrap_err();
    until_gone(&world, &name).await;
    assert_eq!(world.daemon.containers().len(), 1);
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn what_a_seeding_leaves_goes_while_the_server_lives() {
    let world = World::new();
    // Everything that cleans up after it fails at first, and so does it.
    world.daemon.on(Verb::Wait, Cue::FailAfter(failure()));
    for verb in [Verb::RemoveVolume, Verb::RemoveImage] {
        for _ in 0..3 {
            world.daemon.on(verb, Cue::Fail(failure()));
        }
    }
    world.launch().await.unwrap_err();
    assert_eq!(world.daemon.volumes().len(), 1);
    tokio::time::sleep(4 * deadline::SETTLED).await;
    assert_eq!(world.daemon.volumes(), Vec::<String>::new());
    let mut import = world.daemon.calls().into_iter();
    let import = import
        .rfind(|(verb, _)| *verb == Verb::ImportImage)
        .unwrap();
    let looked = world.daemon.image(&import.1).await.unwrap();
    assert_eq!(looked, None, "{import:?}");
    world.launch().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_cut_does_not_cost_the_volume_of_all() {
    let world = World::with(FakeDaemon::with_guest(|_, stream| {
        tokio::spawn(async move { drop(stream) })
    }));
    let error = world.launch().await.map(|_| ()).unwrap_err();
    assert!(
        matches!(error, EngineError::Tether(TetherError::Lost)),
        "{error}"
    );
    assert_eq!(world.daemon.count(Verb::ImportImage), 1);
    assert_eq!(world.daemon.volumes().len(), 2);
}
