//! Every probe, inside and on plain Docker.

use std::{collections::BTreeMap, thread};

use belljar::types::SandboxId;
use belljar_test_probes::{Docker, Expected, Host, Probe, Programs, all};
use serde_json::Value;

use crate::{
    docker::PYTHON,
    inside::{self, Holder, LOST},
    plain::Plain,
    world::{Cgroups, Flag, Kernel, World},
};

/// Plain containers at a time.
const AT_A_TIME: usize = 2;

/// What a kernel says that was built without the thing.
const ABSENT: [&str; 6] = [
    "HELD EAFNOSUPPORT",
    "HELD EPROTONOSUPPORT",
    "HELD ESOCKTNOSUPPORT",
    "HELD EOPNOTSUPP",
    "HELD ENOENT",
    "HELD ENOSYS",
];

fn is_pair(probe: &Probe) -> bool {
    matches!(probe.programs, Programs::Pair { .. })
}

#[tokio::test]
async fn every_probe_comes_inside_to_what_its_head_says() {
    let flag = Flag::plant();
    let facts = flag.facts();
    let probes = all();
    let probes: Vec<&Probe> = probes.iter().filter(|probe| !is_pair(probe)).collect();
    let world = World::new();
    let kernel = world.kernel().await;
    let (lost, shared): (Vec<_>, Vec<_>) = probes
        .into_iter()
        .partition(|probe| matches!(expected(probe, kernel), Expected::Lost(_)));
    let mut verdicts = inside::verdicts(&world, &shared, &facts).await;
    for probe in &lost {
        let sandbox = world.launch(PYTHON).await;
        verdicts.push(inside::to_the_end(&sandbox, probe, &facts).await);
        sandbox.destroy().await.unwrap();
    }
    let probes = [shared, lost].concat();
    world.engine.close().await;
    judge_inside(&probes, &verdicts, kernel);
}

#[tokio::test]
async fn no_sandbox_notices_another_nor_the_host_but_as_its_head_says() {
    let flag = Flag::plant();
    let facts = flag.facts();
    let probes = all();
    let probes: Vec<&Probe> = probes.iter().filter(|probe| is_pair(probe)).collect();
    let world = World::new();
    let (mut one, other) = tokio::join!(world.launch(PYTHON), world.launch(PYTHON));
    let kernel = world.kernel().await;
    let to_host = facts.clone();
    let mut host = tokio::task::spawn_blocking(move || Plain::host(&to_host))
        .await
        .unwrap();
    let mut verdicts = Vec::new();
    for probe in &probes {
        let Programs::Pair {
            holder,
            observer,
            host: look,
        } = probe.programs.clone()
        else {
            unreachable!("only pairs are here")
        };
        if one.is_lost() {
            println!("{}: the one before lost its sandbox", probe.path());
            one.destroy().await.unwrap();
            one = world.launch(PYTHON).await;
        }
        let holder = Holder::start(&one, &holder, &facts).await;
        let mut verdict = inside::one(&other, &observer, &facts).await;
        if look == Host::Too {
            // Beside the sandboxes, whose guests must be heard meanwhile.
            let on_host;
            (host, on_host) = tokio::task::spawn_blocking(move || {
                let said = host.run(&observer);
                (host, said)
            })
            .await
            .unwrap();
            if !is(&on_host, "HELD") {
                verdict = format!("{on_host} on the host");
            }
        }
        if let Some(holder) = holder {
            holder.release().await;
        }
        verdicts.push(verdict);
    }
    tokio::task::spawn_blocking(move || drop(host))
        .await
        .unwrap();
    one.destroy().await.unwrap();
    other.destroy().await.unwrap();
    world.engine.close().await;
    judge_inside(&probes, &verdicts, kernel);
}

#[tokio::test]
async fn every_probe_bites_on_plain_docker() {
    let cgroups = Cgroups::of_daemon().await;
    tokio::task::spawn_blocking(move || bite(cgroups, |probe| !is_pair(probe)))
        .await
        .unwrap();
}

#[tokio::test]
async fn every_pair_bites_on_plain_docker() {
    let cgroups = Cgroups::of_daemon().await;
    tokio::task::spawn_blocking(move || bite(cgroups, is_pair))
        .await
        .unwrap();
}

fn bite(cgroups: Cgroups, wanted: fn(&Probe) -> bool) {
    let flag = Flag::plant();
    let facts = flag.facts();
    let folder = flag.folder.path().to_str().unwrap();
    let mut probes = all();
    probes.retain(wanted);
    let mut groups: BTreeMap<String, Vec<&Probe>> = BTreeMap::new();
    for probe in &probes {
        let flags = match &probe.docker {
            Docker::BreachedWith { flags, .. } => flags.replace("{flag_folder}", folder),
            Docker::Breached | Docker::Held(_) | Docker::ByCgroups => String::new(),
        };
        groups.entry(flags).or_default().push(probe);
    }
    let groups: Vec<_> = groups.into_iter().collect();
    let verdicts: Vec<(&Probe, String)> = thread::scope(|scope| {
        let handles: Vec<_> = groups
            .chunks(groups.len().div_ceil(AT_A_TIME))
            .map(|share| {
                let facts = &facts;
                scope.spawn(move || {
                    let mut said = Vec::new();
                    for (flags, probes) in share {
                        let group = if is_pair(probes[0]) { in_two } else { in_one };
                        said.extend(probes.iter().copied().zip(group(flags, probes, facts)));
                    }
                    said
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap())
            .collect()
    });
    assert_eq!(verdicts.len(), probes.len());
    let mut failures = Vec::new();
    for (probe, said) in verdicts {
        failures.extend(wrong_outside(probe, &said, cgroups));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// The verdicts of probes in one plain container.
fn in_one(flags: &str, probes: &[&Probe], facts: &Value) -> Vec<String> {
    let random = SandboxId::random().to_string();
    let mut plain = Plain::start(flags, &random, facts);
    probes
        .iter()
        .map(|probe| match &probe.programs {
            Programs::Steps(steps) => {
                let mut verdict = String::new();
                for step in steps {
                    verdict = plain.run(step);
                }
                println!("{} on plain Docker: {verdict}", probe.path());
                verdict
            }
            Programs::Pair { .. } => unreachable!("pairs are in other groups"),
        })
        .collect()
}

/// The verdicts of probes in two plain containers, and on the host.
fn in_two(flags: &str, probes: &[&Probe], facts: &Value) -> Vec<String> {
    let random = SandboxId::random().to_string();
    let mut one = Plain::start(flags, &random, facts);
    let mut other = Plain::start(flags, &random, facts);
    let looks = |probe: &&Probe| {
        matches!(
            &probe.programs,
            Programs::Pair {
                host: Host::Too,
                ..
            }
        )
    };
    let mut host = probes.iter().any(looks).then(|| Plain::host(facts));
    probes
        .iter()
        .map(|probe| match &probe.programs {
            Programs::Pair {
                holder,
                observer,
                host: look,
            } => {
                one.hold(holder);
                let mut verdict = other.run(observer);
                if let (Host::Too, Some(host)) = (look, &mut host) {
                    let on_host = host.run(observer);
                    // Both must notice.
                    if is(&verdict, "BREACHED") {
                        verdict = format!("{on_host} on the host");
                    }
                }
                one.release();
                println!("{} on plain Docker: {verdict}", probe.path());
                verdict
            }
            Programs::Steps(_) => unreachable!("they are in other groups"),
        })
        .collect()
}

fn judge_inside(probes: &[&Probe], verdicts: &[String], kernel: Kernel) {
    assert_eq!(probes.len(), verdicts.len());
    let mut failures = Vec::new();
    for (probe, said) in probes.iter().zip(verdicts) {
        println!("{} inside: {said}", probe.path());
        failures.extend(wrong_inside(probe, said, kernel));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// What counts of a probe's head.
fn expected(probe: &Probe, kernel: Kernel) -> &Expected {
    match kernel {
        Kernel::Host(_) => &probe.runc,
        Kernel::Gvisor => &probe.gvisor,
    }
}

/// What is wrong with a sandbox's verdict.
fn wrong_inside(probe: &Probe, said: &str, kernel: Kernel) -> Option<String> {
    let expected = expected(probe, kernel);
    let right = match (expected, kernel) {
        (Expected::Held(None), _)
        | (Expected::ByCgroups(_), Kernel::Host(Cgroups::V2) | Kernel::Gvisor) => is(said, "HELD"),
        (Expected::Held(Some(evidence)), _) => said == format!("HELD {evidence}"),
        (Expected::HeldOrLost(_), _) => is(said, "HELD") || said == LOST,
        (Expected::Lost(_), _) => said == LOST,
        (Expected::Breached(_), _) | (Expected::ByCgroups(_), Kernel::Host(Cgroups::V1)) => {
            is(said, "BREACHED")
        }
    };
    (!right).then(|| {
        format!(
            "{} came to {said} instead of {expected:?}. Tried: {}",
            probe.path(),
            probe.tries
        )
    })
}

/// What is wrong with plain Docker's verdict.
fn wrong_outside(probe: &Probe, said: &str, cgroups: Cgroups) -> Option<String> {
    let (right, why) = match &probe.docker {
        Docker::Breached => (is(said, "BREACHED"), "did not bite".to_owned()),
        Docker::ByCgroups => (
            is(said, "BREACHED") == (cgroups == Cgroups::V1) && !is(said, "no"),
            format!("should depend on the control groups, which are {cgroups:?}"),
        ),
        Docker::BreachedWith { flags, absent } => (
            is(said, "BREACHED") || *absent && ABSENT.contains(&said),
            format!("did not bite with {flags}"),
        ),
        Docker::Held(reason) => (
            is(said, "HELD"),
            format!("should hold there too, since {reason}"),
        ),
    };
    (!right).then(|| format!("{} {why} on plain Docker: {said}", probe.path()))
}

/// Whether a verdict is this one, with or without evidence.
pub(crate) fn is(said: &str, verdict: &str) -> bool {
    said.split([' ', ',']).next() == Some(verdict)
}
