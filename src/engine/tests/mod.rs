//! The engine against a daemon in memory that fails on cue: whatever fails, nothing is left.

mod ending;

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{
    daemon::{DaemonError, HostSpec, OomFlag, Phase},
    fake::{Cue, FakeDaemon, Verb, scripted},
    scripted_guest::Greeting,
    tether::{TetherError, Violation},
    *,
};
use crate::types::{InstanceId, Limits};

const IMAGE: &str = "belljar/python:latest";

struct World {
    state: tempfile::TempDir,
    daemon: Arc<FakeDaemon>,
    engine: Engine,
}

fn engine_on(daemon: &Arc<FakeDaemon>, state: &Path) -> Engine {
    let daemon: Arc<dyn Daemon> = Arc::clone(daemon) as _;
    Engine::new(
        daemon,
        Instance::create(state).unwrap(),
        EngineOptions::default(),
    )
}

impl World {
    fn new() -> Self {
        Self::with(FakeDaemon::new())
    }

    fn with(daemon: FakeDaemon) -> Self {
        let state = tempfile::tempdir().unwrap();
        let daemon = Arc::new(daemon);
        daemon.add_image(IMAGE);
        let engine = engine_on(&daemon, state.path());
        Self {
            state,
            daemon,
            engine,
        }
    }

    async fn launch(&self) -> Result<Sandbox, EngineError> {
        self.engine.launch(&permit(IMAGE)).await
    }

    /// The launch fails, and leaves nothing behind.
    async fn fails(&self) -> EngineError {
        let error = self.launch().await.map(|_| ()).unwrap_err();
        self.until_empty().await;
        error
    }

    async fn until_empty(&self) {
        for _ in 0..1000 {
            if self.daemon.containers().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("left behind: {:?}", self.daemon.containers());
    }

    fn instance_files(&self) -> usize {
        std::fs::read_dir(self.state.path().join("instances"))
            .unwrap()
            .count()
    }
}

fn permit(image: &str) -> Permit<Launch> {
    Permit::for_tests(Launch {
        image: image.into(),
        shm_mib: 16,
        limits: Limits::DEFAULT,
        warm_up: None,
    })
}

fn failure() -> DaemonError {
    DaemonError::Failed {
        call: "test",
        why: "on cue".into(),
    }
}

fn timeout() -> DaemonError {
    DaemonError::Timeout {
        call: "test",
        seconds: 1,
    }
}

/// The container of a sandbox, by its label.
fn container_of(world: &World, sandbox: &Sandbox) -> daemon::Listed {
    world
        .daemon
        .containers()
        .into_iter()
        .find(|listed| {
            listed.labels.get("belljar.session").map(String::as_str) == Some(sandbox.id().as_str())
        })
        .unwrap()
}

#[tokio::test]
async fn a_launch_attaches_before_it_starts_and_destroys_for_good() {
    let world = World::new();
    let sandbox = world.launch().await.unwrap();
    let listed = container_of(&world, &sandbox);
    assert_eq!(
        listed.name,
        format!("belljar-{}-2", world.engine.instance().id()),
        "the first one filled the guest's volume"
    );
    let about_it: Vec<Verb> = world
        .daemon
        .calls()
        .into_iter()
        .filter(|(_, about)| *about == listed.id)
        .map(|(verb, _)| verb)
        .collect();
    assert_eq!(about_it, [Verb::Inspect, Verb::Attach, Verb::Start]);
    assert_eq!(listed.labels["belljar.uid"], sandbox.uid().to_string());
    assert_eq!(sandbox.runtime(), "runc");
    sandbox.destroy().await.unwrap();
    assert!(world.daemon.containers().is_empty());
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_image_is_used_by_id_and_never_pulled() {
    let world = World::new();
    let error = world
        .engine
        .launch(&permit("belljar/ruby:latest"))
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, EngineError::ImageMissing { .. }), "{error}");
    assert!(error.to_string().contains("belljar images build ruby"));
    assert_eq!(world.daemon.count(Verb::Create), 0);
    let sandbox = world.launch().await.unwrap();
    assert!(sandbox.image_id().starts_with("sha256:"));
}

#[tokio::test]
async fn hardening_an_image_with_volumes_makes_no_container() {
    let world = World::new();
    world.daemon.add_image_like(
        "hostile:1",
        daemon::Image {
            volumes: vec!["/data".into()],
            ..daemon::Image::default()
        },
    );
    let error = world
        .engine
        .launch(&permit("hostile:1"))
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, EngineError::ImageRefused { .. }), "{error}");
    assert_eq!(world.daemon.count(Verb::Create), 0);
}

#[tokio::test]
async fn hardening_a_warning_at_create_fails_the_launch() {
    let world = World::new();
    let sandbox = world.launch().await.unwrap();
    sandbox.destroy().await.unwrap();
    world
        .daemon
        .on(Verb::Create, Cue::Warn("no pids limit here".into()));
    let error = world.fails().await;
    assert!(error.to_string().contains("no pids limit here"), "{error}");
    assert_eq!(
        world.daemon.count(Verb::Start),
        2,
        "only the first launch's"
    );
}

#[tokio::test]
async fn hardening_a_container_that_differs_is_never_started() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    let started = world.daemon.count(Verb::Start);
    world.daemon.on(
        Verb::Inspect,
        Cue::Tamper(Box::new(|found| found.spec.host.memory = 0)),
    );
    let error = world.fails().await;
    assert!(
        matches!(
            error,
            EngineError::Mismatch {
                field: "Memory",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(world.daemon.count(Verb::Start), started);
}

#[tokio::test]
async fn whatever_call_fails_nothing_is_left() {
    for verb in [
        Verb::Info,
        Verb::Image,
        Verb::Create,
        Verb::Inspect,
        Verb::List,
        Verb::Attach,
        Verb::Start,
    ] {
        for cue in [Cue::Fail(failure()), Cue::FailAfter(failure())] {
            let world = World::new();
            world.launch().await.unwrap().destroy().await.unwrap();
            world.engine.inner.forget_host();
            // What is created although the answer says failure is removed when the engine closes.
            world.daemon.on(verb, cue);
            assert!(world.launch().await.is_err(), "{verb:?}");
            world.engine.close().await;
            assert!(world.daemon.containers().is_empty(), "{verb:?}");
            assert_eq!(world.instance_files(), 0, "{verb:?}");
        }
    }
}

#[tokio::test]
async fn whatever_call_fails_while_the_volume_is_filled_the_next_launch_works() {
    for verb in [
        Verb::ImportImage,
        Verb::Volume,
        Verb::CreateVolume,
        Verb::Create,
        Verb::Start,
        Verb::Wait,
    ] {
        let world = World::new();
        world.daemon.on(verb, Cue::Fail(failure()));
        world.fails().await;
        world.launch().await.unwrap().destroy().await.unwrap();
        let volumes = world.daemon.volumes();
        assert_eq!(volumes.len(), 2, "{verb:?}: {volumes:?}");
    }
}

#[tokio::test]
async fn a_container_whose_making_got_no_answer_is_looked_for_and_removed() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    world.daemon.on(Verb::Create, Cue::FailAfter(timeout()));
    let error = world.fails().await;
    assert!(matches!(
        error,
        EngineError::Daemon(DaemonError::Timeout { .. })
    ));
}

#[tokio::test]
async fn a_launch_whose_caller_went_away_leaves_nothing() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    for verb in [Verb::Create, Verb::Inspect, Verb::Attach, Verb::Start] {
        world
            .daemon
            .on(verb, Cue::Delay(Duration::from_millis(100)));
        let launched = tokio::time::timeout(Duration::from_millis(30), world.launch()).await;
        assert!(launched.is_err(), "{verb:?}: the caller went away");
        while world.daemon.count(Verb::Remove) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        world.until_empty().await;
    }
}

#[tokio::test]
async fn a_dropped_sandbox_is_destroyed_in_the_background() {
    let world = World::new();
    drop(world.launch().await.unwrap());
    world.until_empty().await;
}

#[tokio::test]
async fn a_removal_that_fails_is_tried_again() {
    let world = World::new();
    let sandbox = world.launch().await.unwrap();
    world.daemon.on(Verb::Remove, Cue::Fail(failure()));
    world.daemon.on(
        Verb::Remove,
        Cue::Fail(DaemonError::Conflict {
            call: "remove container",
            why: "removal already in progress".into(),
        }),
    );
    sandbox.destroy().await.unwrap();
    assert!(world.daemon.containers().is_empty());
}

/// A container that carries another instance's label.
async fn forge(daemon: &FakeDaemon, name: &str, instance: &InstanceId) {
    let spec = any_spec(BTreeMap::from([(
        "belljar.instance".to_owned(),
        instance.to_string(),
    )]));
    daemon.create(name, &spec).await.unwrap();
}

pub(super) fn any_spec(labels: BTreeMap<String, String>) -> daemon::ContainerSpec {
    daemon::ContainerSpec {
        image: String::new(),
        entrypoint: vec![],
        command: vec![],
        env: vec![],
        working_dir: String::new(),
        user: String::new(),
        hostname: String::new(),
        domainname: String::new(),
        labels,
        stop_signal: String::new(),
        healthcheck: vec![],
        stdio: daemon::Stdio::Closed,
        host: HostSpec {
            readonly_rootfs: true,
            auto_remove: false,
            cap_drop: vec![],
            cap_add: vec![],
            security_opt: vec![],
            network_mode: String::new(),
            ipc_mode: String::new(),
            cgroupns_mode: String::new(),
            log_driver: String::new(),
            restart_policy: String::new(),
            memory: 0,
            memory_swap: 0,
            pids_limit: 0,
            nano_cpus: 0,
            ulimits: BTreeMap::new(),
            shm_size: 0,
            tmpfs: BTreeMap::new(),
            oom_score_adj: 0,
            runtime: String::new(),
            dns: vec![],
            dns_search: vec![],
            mounts: vec![],
        },
    }
}

#[tokio::test]
async fn hardening_user_a_uid_that_another_server_uses_is_given_up() {
    let world = World::new();
    let free = FIRST_UID + 77;
    for uid in (FIRST_UID..FIRST_UID + UID_COUNT).filter(|uid| *uid != free) {
        let labels = [
            ("belljar.role".to_owned(), "sandbox".to_owned()),
            ("belljar.uid".to_owned(), uid.to_string()),
        ];
        world
            .daemon
            .create(&format!("other-{uid}"), &any_spec(labels.into()))
            .await
            .unwrap();
    }
    let sandbox = world.launch().await.unwrap();
    assert_eq!(sandbox.uid(), free);
    let error = world.launch().await.map(|_| ()).unwrap_err();
    assert!(
        matches!(error, EngineError::UidsExhausted { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn concurrent_first_launches_fill_one_volume_a_server_and_keep_one() {
    let world = World::new();
    let second_state = tempfile::tempdir().unwrap();
    let second = engine_on(&world.daemon, second_state.path());
    let mut launches = tokio::task::JoinSet::new();
    for engine in [&world.engine, &second, &world.engine, &second] {
        let engine = engine.clone();
        launches.spawn(async move { engine.launch(&permit(IMAGE)).await });
    }
    let sandboxes: Vec<Sandbox> = launches
        .join_all()
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(sandboxes.len(), 4);
    assert!(world.daemon.count(Verb::ImportImage) <= 2);
    assert_eq!(
        world.daemon.volumes().len(),
        2,
        "the pointer and what it points to"
    );
    assert_eq!(
        world.daemon.count(Verb::RemoveImage),
        world.daemon.count(Verb::ImportImage)
    );
}

#[tokio::test]
async fn a_volume_without_its_guest_is_filled_anew() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    world.daemon.spoil_volumes();
    let sandbox = world.launch().await.unwrap();
    assert_eq!(world.daemon.count(Verb::ImportImage), 2);
    sandbox.destroy().await.unwrap();
    assert_eq!(world.daemon.volumes().len(), 2);
}

#[tokio::test]
async fn a_volume_that_was_pruned_is_filled_anew() {
    let world = World::new();
    world.launch().await.unwrap().destroy().await.unwrap();
    for volume in world.daemon.volumes() {
        world.daemon.remove_volume(&volume).await.unwrap();
    }
    world.launch().await.unwrap().destroy().await.unwrap();
    assert_eq!(world.daemon.volumes().len(), 2);
}

#[tokio::test]
async fn a_guest_that_does_not_answer_as_it_should_is_removed() {
    let other = World::with(FakeDaemon::with_guest(|uid, stream| {
        scripted(Greeting::OtherProtocol, uid, stream)
    }));
    let error = other.fails().await;
    assert!(
        matches!(
            error,
            EngineError::Tether(TetherError::Violation(Violation::Protocol))
        ),
        "{error}"
    );
    let root = World::with(FakeDaemon::with_guest(|_, stream| {
        scripted(Greeting::Proper, 0, stream)
    }));
    let error = root.fails().await;
    assert!(
        matches!(
            error,
            EngineError::Mismatch {
                field: "uid inside",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_sandbox_that_dies_is_lost_and_the_daemon_s_verdict_is_read() {
    let world = World::new();
    for (oom, verdict) in [(OomFlag::Set, true), (OomFlag::Clear, false)] {
        let sandbox = world.launch().await.unwrap();
        let id = container_of(&world, &sandbox).id;
        world.daemon.die(&id, oom);
        sandbox.lost().await;
        assert_eq!(sandbox.oom_killed_by_daemon().await, verdict);
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test]
async fn a_killed_sandbox_has_ended() {
    let world = World::new();
    let sandbox = world.launch().await.unwrap();
    let id = container_of(&world, &sandbox).id;
    sandbox.kill().await.unwrap();
    sandbox.lost().await;
    let state = world.daemon.inspect(&id).await.unwrap().unwrap().state;
    assert_eq!(state.phase, Phase::Ended);
}

#[tokio::test]
async fn a_missing_runtime_makes_no_container() {
    let world = World::new();
    world
        .daemon
        .change_info(|info| info.default_runtime = "kata".into());
    let error = world.fails().await;
    assert!(
        matches!(error, EngineError::RuntimeMissing { .. }),
        "{error}"
    );
    world
        .daemon
        .change_info(|info| info.default_runtime = "runc".into());
    world.launch().await.unwrap();
}

#[tokio::test]
async fn podman_is_named_and_nothing_is_made_on_it() {
    let world = World::new();
    world.daemon.change_version(|version| {
        let name = "Podman Engine".to_owned();
        version.components.insert(name, "4.3.1".to_owned());
    });
    let error = world.fails().await;
    assert_eq!(error.reason(), "podman");
    assert!(
        error.to_string().contains("Podman 4.3.1 answers"),
        "{error}"
    );
    world.engine.reap().await.unwrap_err();
    let made = [Verb::ImportImage, Verb::CreateVolume, Verb::Create];
    assert!(made.iter().all(|&verb| world.daemon.count(verb) == 0));
    world.engine.close().await;
    assert_eq!(world.instance_files(), 0);
}

#[tokio::test]
async fn a_platform_without_a_guest_is_named() {
    let world = World::new();
    world
        .daemon
        .change_info(|info| info.os_type = "windows".into());
    let error = world.fails().await;
    assert!(error.to_string().contains("windows/x86_64"), "{error}");
}

#[tokio::test]
async fn facts_say_what_is_missing_as_missing() {
    let world = World::new();
    let references = [IMAGE.to_owned(), "gone:1".to_owned()];
    let facts = world.engine.facts(&references).await.unwrap();
    assert!(facts.images[0].found.is_some());
    assert_eq!(facts.images[1].found, None);
    assert_eq!(facts.guest_volume, None);
    assert_eq!(facts.runtime.as_deref(), Ok("runc"));
    world.launch().await.unwrap().destroy().await.unwrap();
    let facts = world.engine.facts(&references).await.unwrap();
    assert!(facts.guest_volume.is_some());
}
