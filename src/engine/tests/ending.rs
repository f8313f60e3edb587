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
            failed: 0,
            pending: 1
        }
    );
    assert_eq!(world.daemon.containers().len(), 4);
    // What the daemon was making when the server ended may appear only now.
    forge(&world.daemon, &format!("belljar-{dead_id}-77"), &dead_id).await;
    let reaped = world.engine.reap().await.unwrap();
    assert_eq!((reaped.instances, reaped.containers), (1, 1));
    // Done with once it has been known to have ended for long enough.
    assert_eq!(
        world.instance_files(),
        1,
        "the dead's file is gone all the same"
    );
    tokio::time::pause();
    tokio::time::advance(deadline::SETTLED).await;
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

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_soon_after_a_create_without_an_answer_leaves_its_name_behind() {
    for answered in [true, false] {
        let world = World::new();
        drop(world.launch().await.unwrap());
        world.until_empty().await;
        let error = if answered { failure() } else { timeout() };
        world.daemon.on(Verb::Create, Cue::Fail(error));
        world.fails().await;
        // Nothing is there, nor being made as far as anybody here can tell.
        world.engine.close().await;
        let left = usize::from(!answered);
        assert_eq!(world.instance_files(), left, "the next start must find it");
    }
}

#[tokio::test]
async fn the_dead_of_another_daemon_are_left_to_servers_of_that_daemon() {
    let world = World::new();
    let elsewhere = FakeDaemon::new();
    elsewhere.add_image(IMAGE);
    elsewhere.change_info(|info| info.daemon_id = "ELSEWHERE".into());
    let elsewhere = Arc::new(elsewhere);
    let dead = engine_on(&elsewhere, world.state.path());
    let dead_id = dead.instance().id().clone();
    dead.launch(&permit(IMAGE))
        .await
        .unwrap()
        .destroy()
        .await
        .unwrap();
    drop(dead);
    forge(&elsewhere, &format!("belljar-{dead_id}-7"), &dead_id).await;
    let mut reaped = Reaped::default();
    for _ in 0..200 {
        // Here there is nothing of it, which says nothing.
        assert_eq!(world.engine.reap().await.unwrap(), Reaped::default());
        let there = engine_on(&elsewhere, world.state.path());
        reaped = there.reap().await.unwrap();
        there.close().await;
        if reaped.instances > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((reaped.instances, reaped.containers), (1, 1));
    assert!(elsewhere.containers().is_empty());
}

#[tokio::test]
async fn a_server_whose_daemon_is_replaced_says_of_both_that_it_has_containers_there() {
    let world = World::new();
    std::mem::forget(world.launch().await.unwrap());
    // Another one answers at the same address, with the image and without the volume.
    world
        .daemon
        .change_info(|info| info.daemon_id = "ANOTHER".into());
    let bad = DaemonError::Failed {
        call: "start",
        why: "exec: \".belljar/init\": stat: no such file or directory".into(),
    };
    world.daemon.on(Verb::Start, Cue::Fail(bad));
    world.launch().await.unwrap();
    world.engine.close().await;
    assert_eq!(
        world.instance_files(),
        1,
        "the first daemon was not swept: whoever comes next must find it"
    );
    let own = world.engine.instance().id().clone();
    assert_eq!(world.engine.instance().open(), [(own, "FAKE".into())]);
}

#[tokio::test]
async fn a_daemon_that_another_launch_has_met_already_is_noted_too() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    world
        .daemon
        .change_info(|info| info.daemon_id = "ANOTHER".into());
    // The volume is known, of whichever of the two.
    world.engine.inner.host.forget();
    world.launch().await.unwrap().destroy().await.unwrap();
    let noted = world.engine.instance().open().into_iter();
    let noted: Vec<_> = noted.map(|(_, daemon)| daemon).collect();
    assert_eq!(noted, ["FAKE", "ANOTHER"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_comes_up_late_loses_what_ended_servers_left() {
    let world = World::new();
    drop(engine_on(&world.daemon, world.state.path()));
    for _ in 0..20 {
        world.daemon.on(Verb::Info, Cue::Fail(failure()));
    }
    world.engine.keep_reaped().await;
    assert_eq!(world.instance_files(), 1);
    assert_eq!(world.engine.instance().open(), []);
}

#[tokio::test(start_paused = true)]
async fn while_the_daemon_does_not_answer_nothing_is_known_to_be_gone() {
    let world = World::new();
    let dead = engine_on(&world.daemon, world.state.path());
    let id = dead.instance().id().clone();
    drop(dead);
    let almost = deadline::SETTLED * 9 / 10;
    for verb in [Some(Verb::List), Some(Verb::Volumes), None] {
        assert_eq!(world.engine.reap().await.unwrap().pending, 1);
        tokio::time::advance(almost).await;
        match verb {
            Some(verb) => world.daemon.on(verb, Cue::Fail(failure())),
            // Nor after it has made something.
            None => forge(&world.daemon, &format!("belljar-{id}-7"), &id).await,
        }
        let _ = world.engine.reap().await;
        tokio::time::advance(almost).await;
        assert_eq!(world.engine.reap().await.unwrap().pending, 1, "{verb:?}");
    }
    forge(&world.daemon, "belljar-late", &id).await;
    tokio::time::advance(deadline::SETTLED).await;
    assert_eq!(world.engine.reap().await.unwrap().pending, 0);
    assert_eq!(world.daemon.containers().len(), 1, "nobody's of that name");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_from_another_daemon_is_not_done_with() {
    let world = World::new();
    drop(engine_on(&world.daemon, world.state.path()));
    world.engine.reap().await.unwrap();
    tokio::time::advance(2 * deadline::SETTLED).await;
    let change = |name: &'static str| {
        let daemon = &world.daemon;
        daemon.change_info(|info| info.daemon_id = name.into());
    };
    // In the middle of it another one takes its place, where there is nothing to remove.
    world.daemon.on(Verb::Info, Cue::Pass);
    world
        .daemon
        .on(Verb::List, Cue::Delay(Duration::from_secs(2)));
    let (reaped, ()) = tokio::join!(world.engine.reap(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        change("ANOTHER");
    });
    assert_eq!(reaped.unwrap().instances, 1);
    assert_eq!(world.engine.reap().await.unwrap(), Reaped::default());
    change("FAKE");
    assert_eq!(
        world.engine.reap().await.unwrap().instances,
        1,
        "done with now"
    );
    assert_eq!(world.engine.reap().await.unwrap(), Reaped::default());
}

#[tokio::test(start_paused = true)]
async fn what_the_last_sweep_finds_is_looked_for_until_nothing_can_follow() {
    let world = World::new();
    let engine = world.engine.clone();
    let reaping = tokio::spawn(async move { engine.keep_reaped().await });
    tokio::time::sleep(Duration::from_secs(121)).await;
    let dead = engine_on(&world.daemon, world.state.path());
    let id = dead.instance().id().clone();
    drop(dead);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.instance_files(), 1, "it was found");
    let name = format!("belljar-{id}-7");
    forge(&world.daemon, &name, &id).await;
    until_gone(&world, &name).await;
    reaping.await.unwrap();
    assert_eq!(world.engine.instance().open(), []);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_while_the_daemon_imports_the_guest_leaves_its_name_behind() {
    let world = World::new();
    world
        .daemon
        .on(Verb::ImportImage, Cue::Delay(2 * deadline::CLOSE));
    let engine = world.engine.clone();
    let launch = tokio::spawn(async move { engine.launch(&permit(IMAGE)).await.map(|_| ()) });
    until_called(&world.daemon, Verb::ImportImage, 1).await;
    world.engine.close().await;
    assert_eq!(world.instance_files(), 1, "the next start must find it");
    let error = launch.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Closed), "{error}");
    assert_eq!(world.daemon.count(Verb::Create), 0, "nothing more is made");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_while_it_owes_a_volume_or_an_image_leaves_its_name_behind() {
    let world = World::new();
    world.daemon.on(Verb::RemoveImage, Cue::Fail(failure()));
    world.launch().await.unwrap().destroy().await.unwrap();
    world.engine.close().await;
    assert_eq!(world.instance_files(), 1, "an image");
    let world = World::new();
    world.daemon.on(Verb::Wait, Cue::Fail(failure()));
    world.daemon.on(Verb::RemoveVolume, Cue::Fail(failure()));
    world.fails().await;
    world.engine.close().await;
    assert_eq!(world.instance_files(), 1, "a volume");
}

#[tokio::test]
async fn a_server_that_filled_a_bad_volume_anew_owes_nothing() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    world.daemon.spoil_volumes();
    world.launch().await.unwrap().destroy().await.unwrap();
    world.engine.close().await;
    assert_eq!(world.instance_files(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_hangs_before_it_makes_anything_makes_nothing_after_the_end() {
    let world = World::new();
    world.daemon.on(Verb::Info, Cue::Delay(2 * deadline::CLOSE));
    let engine = world.engine.clone();
    let launch = tokio::spawn(async move { engine.launch(&permit(IMAGE)).await.map(|_| ()) });
    until_called(&world.daemon, Verb::Info, 1).await;
    world.engine.close().await;
    assert_eq!(world.instance_files(), 0);
    let error = launch.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Closed), "{error}");
    for verb in [Verb::ImportImage, Verb::CreateVolume, Verb::Create] {
        assert_eq!(world.daemon.count(verb), 0);
    }
}

async fn until_called(daemon: &FakeDaemon, verb: Verb, times: usize) {
    while daemon.count(verb) < times {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// As a process that was killed: its lock is free and nothing of it goes on. Without a runtime its clean-up does not
/// run either.
fn kill(runtime: tokio::runtime::Runtime, engine: Engine) {
    runtime.shutdown_background();
    drop(engine);
}

#[test]
fn a_server_that_is_killed_while_it_fills_the_volume_leaves_nothing_of_it() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    for (verb, before) in [
        (Verb::Image, 0),
        (Verb::CreateVolume, 0),
        (Verb::Create, 0),
        (Verb::Inspect, 0),
        (Verb::Start, 0),
        (Verb::Wait, 0),
        (Verb::Remove, 0),
        (Verb::RemoveImage, 0),
        (Verb::CreateVolume, 1),
    ] {
        let daemon = Arc::new(FakeDaemon::new());
        daemon.add_image(IMAGE);
        let state = tempfile::tempdir().unwrap();
        let first = engine_on(&daemon, state.path());
        let killed = first.instance().id().clone();
        for _ in 0..before {
            daemon.on(verb, Cue::Pass);
        }
        // It hangs before this call does its work, and is killed there.
        daemon.on(verb, Cue::Delay(Duration::from_hours(1)));
        let doomed = runtime();
        doomed.block_on(async {
            let permit = permit(IMAGE);
            tokio::select! {
                _ = first.launch(&permit) => panic!("{verb:?}: it hangs"),
                () = until_called(&daemon, verb, before + 1) => {}
            }
        });
        kill(doomed, first);
        let next = engine_on(&daemon, state.path());
        runtime().block_on(async {
            let mut found = Reaped::default();
            while found.instances == 0 {
                found = next.reap().await.unwrap();
            }
            assert_eq!(daemon.containers(), [], "{verb:?}");
            assert_eq!(daemon.volumes(), Vec::<String>::new(), "{verb:?}");
            assert_eq!(daemon.images(), [IMAGE.to_owned()], "{verb:?}, of {killed}");
            next.launch(&permit(IMAGE))
                .await
                .unwrap()
                .destroy()
                .await
                .unwrap();
            assert_eq!(daemon.volumes().len(), 2, "{verb:?}");
        });
    }
}

#[tokio::test]
async fn a_daemon_that_does_not_list_volumes_loses_its_containers_all_the_same() {
    let world = World::new();
    let dead = engine_on(&world.daemon, world.state.path());
    drop(dead.launch(&permit(IMAGE)).await.unwrap());
    world.until_empty().await;
    let id = dead.instance().id().clone();
    forge(&world.daemon, &format!("belljar-{id}-77"), &id).await;
    drop(dead);
    let mut reaped = Reaped::default();
    while reaped.containers == 0 {
        world.daemon.on(Verb::Volumes, Cue::Fail(failure()));
        reaped = world.engine.reap().await.unwrap();
    }
    assert_eq!(
        (reaped.instances, reaped.containers),
        (0, 1),
        "not done with"
    );
    assert_eq!(world.daemon.containers(), []);
    while world.engine.reap().await.unwrap().instances == 0 {}
}

#[tokio::test]
async fn the_volume_of_an_ended_server_that_is_in_use_stays_and_so_do_those_of_others() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    let guest = world.daemon.volumes();
    let other_state = tempfile::tempdir().unwrap();
    let other = engine_on(&world.daemon, other_state.path());
    // Another's, of a live and of an unknown instance, and some that only look like ours.
    let mut stay = vec!["postgres-data".to_owned()];
    for instance in [other.instance().id().clone(), InstanceId::random()] {
        let random = crate::types::SandboxId::random();
        stay.push(format!("belljar-guest-1-runc-{instance}-{random}"));
    }
    let ended = world.engine.instance().id().clone();
    stay.push(format!(
        "mine-{ended}-{}",
        crate::types::SandboxId::random()
    ));
    stay.push(format!("belljar-guest-1-runc-{ended}-x"));
    for name in &stay {
        let labels = [("belljar.role".to_owned(), "guest-volume".to_owned())].into();
        let name = name.clone();
        let volume = daemon::Volume { name, labels };
        world.daemon.create_volume(&volume).await.unwrap();
    }
    let World {
        state,
        daemon,
        engine,
    } = world;
    drop(engine);
    let next = engine_on(&daemon, state.path());
    assert_eq!(next.reap().await.unwrap().instances, 1);
    let mut want = guest;
    want.append(&mut stay);
    want.sort();
    assert_eq!(daemon.volumes(), want);
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
