//! The table of probes in `SECURITY.md`: generated from their heads, committed, and compared here.
//! `UPDATE_PROBES=1 cargo test --test escape table` writes it anew.

use std::{fmt::Write as _, fs};

use belljar_test_probes::{Docker, Expected, Probe, all};

const BEGIN: &str = "<!-- probes -->";
const END: &str = "<!-- end of probes -->";

fn table(probes: &[Probe]) -> String {
    let mut text = String::new();
    let mut topic = "";
    for probe in probes {
        if probe.topic != topic {
            topic = &probe.topic;
            write!(
                text,
                "\n### `{topic}`\n\n| probe | what is tried | plain Docker | belljar, runc | belljar, gVisor |\n|---|---|---|---|---|\n"
            ).unwrap();
        }
        writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            probe.name,
            probe.tries,
            docker(&probe.docker),
            expected(&probe.runc),
            expected(&probe.gvisor)
        )
        .unwrap();
    }
    text
}

fn docker(docker: &Docker) -> String {
    match docker {
        Docker::Breached => "**breached**".to_owned(),
        Docker::BreachedWith { flags, absent } => {
            let flags = flags
                .replace("{flag_folder}", "…")
                .replace("belljar-test-{random}", "…");
            let absent = if *absent { ", or absent" } else { "" };
            format!("**breached**{absent} with `{flags}`")
        }
        Docker::Held(reason) => format!("held: {reason}"),
        Docker::ByCgroups => "held with cgroup v2, **breached** with v1".to_owned(),
    }
}

fn expected(expected: &Expected) -> String {
    match expected {
        Expected::Held(None) => "held".to_owned(),
        Expected::Held(Some(evidence)) => format!("held, {evidence}"),
        Expected::Breached(reason) => format!("**breached**: {reason}"),
        Expected::HeldOrLost(reason) => format!("held, or the sandbox is lost: {reason}"),
        Expected::Lost(reason) => format!("the sandbox is lost: {reason}"),
        Expected::ByCgroups(reason) => {
            format!("held with cgroup v2, **breached** with v1: {reason}")
        }
    }
}

#[test]
fn the_table_in_security_md_is_what_the_probes_expect() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/SECURITY.md");
    let document = fs::read_to_string(path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the marker of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let wanted = format!("{before}{BEGIN}\n{}\n{END}{after}", table(&all()));
    if std::env::var_os("UPDATE_PROBES").is_some() {
        fs::write(path, &wanted).unwrap();
    }
    assert!(
        fs::read_to_string(path).unwrap() == wanted,
        "SECURITY.md does not say what the heads of the probes do: look at the change, then run \
         `UPDATE_PROBES=1 cargo test --test escape table`"
    );
}

/// The folders are the topics that a reader can find, and each says what it is about by more than one attempt.
#[test]
fn there_are_probes_of_every_topic() {
    let probes = all();
    assert!(probes.len() > 140, "{} probes", probes.len());
    for topic in [
        "budgets",
        "channels",
        "ends",
        "files",
        "flag",
        "init",
        "kernel",
        "network",
        "privileges",
        "shared",
        "syscalls",
        "told",
    ] {
        let of_topic = probes.iter().filter(|probe| probe.topic == topic).count();
        assert!(of_topic > 3, "{of_topic} probes of {topic}");
    }
}
