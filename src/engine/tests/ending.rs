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
