//! Attempts to get past the rules of the proxy, as a table: each from inside a sandbox, each blocked and on record.

mod cases;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::World;
use cases::{CASES, Case, Expect};

/// What is open in these tests: little, so that much can be tried.
const CONFIG: &str = r#"
[egress.lab]
allow = [
    "files.lab.test:{tls}",
    "*.wild.test:{tls}",
    "http://plain.lab.test:{plain}",
    "meta.lab.test:{tls}",
    "inside.lab.test:{tls}",
    { host = "api.lab.test:{tls}", methods = ["GET"], paths = ["/echo", "/repos/*"] },
    { host = "pinned.lab.test:{tls}", tunnel = true },
]
upstream_ca = "{ca}"
# Neither opens what is tried below: metadata never is, and the other is a private address nobody opened.
allow_private = ["127.0.0.1/32", "169.254.169.254/32"]

[egress.lab.resolve]
"files.lab.test" = ["127.0.0.1"]
"a.wild.test" = ["127.0.0.1"]
"wild.test" = ["127.0.0.1"]
"notwild.test" = ["127.0.0.1"]
"plain.lab.test" = ["127.0.0.1"]
"api.lab.test" = ["127.0.0.1"]
"pinned.lab.test" = ["127.0.0.1"]
"meta.lab.test" = ["169.254.169.254"]
"inside.lab.test" = ["10.1.2.3", "::ffff:127.0.0.2", "fd00::1"]

[egress.nothing]
allow = []
"#;

/// Tries one in the session of its network: each run there has a way out of its own.
async fn try_case(world: &World, session: &str, case: &Case) -> Result<(), String> {
    let before = world.upstream.seen().len();
    let ran = world.python_in(session, case.program).await;
    let (stdout, denied) = (ran.stdout(), ran.denied());
    let stderr = ran.0.stderr.shown.text();
    let evidence = || format!("denied {denied:?}\nstdout: {stdout}\nstderr: {stderr}");
    let recorded: BTreeSet<String> = world
        .recorded(&ran.id())
        .iter()
        .filter(|line| line["decision"]["verdict"] == "deny")
        .map(|line| line["decision"]["reason"].as_str().unwrap().to_owned())
        .collect();
    let arrived: Vec<_> = world.upstream.seen().into_iter().skip(before).collect();
    match case.expect {
        Expect::Denied(reason) => {
            if denied != [reason] {
                return Err(format!("not denied as {reason}: {}", evidence()));
            }
            if reason == "address_denied" && ran.allowed() > 0 {
                return Err(format!("counted as allowed too: {:?}", ran.0.egress));
            }
            if !recorded.iter().eq([reason]) {
                return Err(format!("recorded as {recorded:?}: {}", evidence()));
            }
            let passed = arrived
                .iter()
                .find(|seen| seen.target.contains("evil") || seen.method == "EVIL");
            if let Some(passed) = passed {
                return Err(format!("{passed:?} arrived"));
            }
        }
        Expect::Allowed(needle) => {
            if !denied.is_empty() || !stdout.contains(needle) {
                return Err(format!("not allowed: {}", evidence()));
            }
            if world.recorded(&ran.id()).is_empty() {
                return Err("allowed and not recorded".to_owned());
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_is_blocked_and_recorded() {
    let world = World::new(CONFIG).await;
    let sessions = BTreeMap::from([
        ("lab", world.session("python", "lab").await),
        ("nothing", world.session("python", "nothing").await),
    ]);
    let mut failures = Vec::new();
    for case in CASES {
        if let Err(why) = try_case(&world, &sessions[case.network], case).await {
            failures.push(format!("--- {}: {why}", case.name));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        CASES.len(),
        failures.join("\n")
    );
    world.close().await;
}

#[test]
fn no_case_is_there_twice() {
    let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), CASES.len());
}
