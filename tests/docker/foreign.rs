//! What is not ours is never removed, whatever it says of itself.
//!
//! Labels are an image's to choose, and a name is whoever's who makes the container. So containers are forged here that
//! say all that ours say, in every combination, and a sweep must leave each of them alone; and one that really is a
//! dead server's is among them, or the test would show nothing.

use std::collections::{BTreeSet, HashMap};

use belljar::{
    engine::Engine,
    types::{InstanceId, SandboxId},
};
use bollard::{
    models::{ContainerCreateBody, HostConfig},
    query_parameters::{
        CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions,
        StartContainerOptions,
    },
};
use futures_util::future::join_all;

use crate::support::{BASH, World, client, containers, engine_in, until};

/// Containers that are not ours, removed with [`Foreign::remove`].
struct Foreign {
    names: BTreeSet<String>,
}

/// One of them: its name, its labels, and whether it runs or never did.
type Forged = (String, HashMap<String, String>, bool);

impl Foreign {
    async fn make(all: Vec<Forged>) -> Self {
        let names = all.iter().map(|(name, _, _)| name.clone()).collect();
        join_all(all.into_iter().map(Self::make_one)).await;
        Self { names }
    }

    async fn make_one((name, labels, runs): Forged) {
        let body = ContainerCreateBody {
            image: Some(BASH.to_owned()),
            entrypoint: Some(vec!["sleep".into(), "600".into()]),
            labels: Some(labels),
            host_config: Some(HostConfig {
                network_mode: Some("none".into()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            ..CreateContainerOptions::default()
        };
        client()
            .create_container(Some(options), body)
            .await
            .unwrap();
        if runs {
            client()
                .start_container(&name, None::<StartContainerOptions>)
                .await
                .unwrap();
        }
    }

    /// Those that are not there any more, or do not run though they did.
    async fn harmed(&self) -> Vec<String> {
        let mut harmed = Vec::new();
        for name in &self.names {
            let found = client()
                .inspect_container(name, None::<InspectContainerOptions>)
                .await;
            let state = found.ok().and_then(|found| found.state);
            let runs = state.is_some_and(|state| {
                let never = state.started_at.is_none_or(|at| at.starts_with("0001-"));
                never || state.running == Some(true)
            });
            if !runs {
                harmed.push(name.clone());
            }
        }
        harmed
    }

    async fn remove(self) {
        for name in &self.names {
            let options = RemoveContainerOptions {
                force: true,
                v: true,
                link: false,
            };
            let _ = client().remove_container(name, Some(options)).await;
        }
    }
}

/// All that ours say, as if the container were `instance`'s.
fn labels(instance: &InstanceId) -> Vec<(String, String)> {
    [
        ("belljar.instance", instance.as_str()),
        ("belljar.role", "sandbox"),
        ("belljar.session", SandboxId::random().as_str()),
        ("belljar.created", "2026-01-01T00:00:00Z"),
        ("belljar.uid", "52000"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// An engine whose server has died, as a process does that is killed, with one container left; and its id.
fn dead(world: &World) -> InstanceId {
    let engine = engine_in(world.state.path(), None);
    let id = engine.instance().id().clone();
    die(engine);
    id
}

fn die(engine: Engine) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sandbox = runtime.block_on(async {
        engine
            .launch(&crate::support::permit(
                BASH,
                belljar::types::LimitsRequest::default(),
            ))
            .await
            .unwrap()
    });
    runtime.shutdown_background();
    drop(sandbox);
    drop(engine);
}

#[test]
fn a_sweep_removes_nothing_that_only_says_that_it_is_ours() {
    let world = World::new();
    let dead_id = dead(&world);
    let elsewhere = World::new();
    let dead_elsewhere = dead(&elsewhere);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let live = world.engine.instance().id().clone();
        let unknown = InstanceId::random();
        let own = SandboxId::random();
        let mut forged: Vec<Forged> = Vec::new();
        let mut forge = |name: String, labels: Vec<(String, String)>, runs: bool| {
            forged.push((name, labels.into_iter().collect(), runs));
        };
        for (at, instance) in (0..).zip([&dead_id, &live, &dead_elsewhere, &unknown]) {
            // A name of its own with all of our labels, and with each of them alone.
            let foreign = |what: &str| format!("foreign-{own}-{at}-{what}");
            forge(foreign("all"), labels(instance), at == 0);
            for label in labels(instance).into_iter().filter(|_| at == 0) {
                forge(foreign(&label.0), vec![label.clone()], false);
            }
            // Our names, and labels that say another instance or none.
            let ours = |number: u64| format!("belljar-{instance}-{number}");
            forge(ours(700_001), vec![], at == 0);
            forge(ours(700_002), labels(&InstanceId::random()), false);
            // Names that only begin or end as ours do.
            for near in [format!("{}x", ours(7)), format!("x{}", ours(8))] {
                forge(near, labels(instance), false);
            }
        }
        // Our names and labels in full, of instances that are nobody's here, or are not dead.
        for instance in [&live, &dead_elsewhere, &unknown] {
            forge(
                format!("belljar-{instance}-700003"),
                labels(instance),
                false,
            );
        }
        let foreign = Foreign::make(forged).await;
        let left = |of: &InstanceId| {
            let label = format!("belljar.instance={of}");
            async move {
                let mut names = BTreeSet::new();
                for found in containers(&label).await {
                    let name = found.name.unwrap_or_default();
                    names.insert(name.trim_start_matches('/').to_owned());
                }
                names
            }
        };
        let before = left(&dead_elsewhere).await;
        until("what is really the dead server's is removed", async || {
            world.engine.reap().await.unwrap();
            left(&dead_id).await.is_subset(&foreign.names)
        })
        .await;
        assert_eq!(foreign.harmed().await, Vec::<String>::new());
        assert_eq!(
            left(&dead_elsewhere).await,
            before,
            "a dead server of another state directory"
        );
        // Another server of the same directory is alive: its container serves on.
        let second = engine_in(world.state.path(), None);
        let sandbox = second
            .launch(&crate::support::permit(
                BASH,
                belljar::types::LimitsRequest::default(),
            ))
            .await
            .unwrap();
        world.engine.reap().await.unwrap();
        let ran = crate::support::bash(&sandbox, "echo alive").await;
        assert_eq!(ran.ok(), "alive\n");
        sandbox.destroy().await.unwrap();
        second.close().await;
        // Its own directory's server finds it.
        elsewhere.engine.reap().await.unwrap();
        assert!(left(&dead_elsewhere).await.is_subset(&foreign.names));
        foreign.remove().await;
        elsewhere.engine.close().await;
        world.engine.close().await;
    });
}
