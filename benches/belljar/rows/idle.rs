//! What containers cost that stand ready and do nothing.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use crate::{
    client::Server,
    context::Context,
    docker, machine,
    program::PRINT,
    quiet::settle_within,
    report::{Lacking, Reach, Report, Shown},
    stats::{Series, Unit},
};

/// How many.
const CONTAINERS: usize = 200;
/// A pool that holds so many, and not one more.
const CONFIG: &str = "[pool]\nmin = 200\nmax = 200\n";
/// Memory that they need in all, with their interpreters and what Docker keeps for each, in KiB.
const NEEDED_KIB: u64 = 18 * 1024 * 1024;
/// How long they may take to start.
const FILL: Duration = Duration::from_mins(7);
/// How long the interpreters of the last ones may take to boot, once their containers run.
const WARMING: Duration = Duration::from_secs(30);
/// Between two looks at the daemon.
const LOOK: Duration = Duration::from_secs(2);
/// The most that a guest may have resident, in MiB.
const MOST_GUEST_MIB: f64 = 3.0;
/// The most that the server may have resident, in MiB.
const MOST_SERVER_MIB: f64 = 40.0;

pub(super) fn resident(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    if !context.has_pool {
        return Err(Lacking("this build of belljar has no pool".to_owned()).into());
    }
    let free = machine::memory_kib("MemAvailable").unwrap_or_default();
    if free < NEEDED_KIB {
        let why = format!("{CONTAINERS} warm containers need 18 GiB of free memory");
        return Err(Lacking(why).into());
    }
    let (mut guest, mut rest, mut server_mib) = (
        Series::new("the guest of a container").of(Unit::Mib),
        Series::new("all processes of a container, guest included").of(Unit::Mib),
        Series::new("the server").of(Unit::Mib),
    );
    let (mut filled, mut booted) = (Duration::ZERO, 0);
    for _ in 0..rounds {
        let server = Server::start(CONFIG, &[])?;
        let began = Instant::now();
        // The first use names the image.
        server.run(&PRINT, None)?;
        let pids = full(&server, began)?;
        filled = began.elapsed();
        settle_within(WARMING);
        for pid in pids {
            match machine::process_mib(pid, "VmRSS") {
                Ok(mib) => {
                    guest.push(mib);
                    let children = children_mib(pid);
                    booted += usize::from(!children.is_empty());
                    rest.push(mib + children.iter().sum::<f64>());
                }
                Err(error) => guest.fail(&error),
            }
        }
        server_mib.push(machine::process_mib(server.pid(), "VmRSS")?);
        server.stop()?;
    }

    let mut report = Report::new(format!(
        "The resident memory of the processes of {CONTAINERS} containers that wait for a python program, \
         and of the server that holds them, as the host's kernel counts it (`VmRSS`; pages that \
         processes share count in each).",
    ));
    report.claim(
        "largest guest",
        guest.percentile(100).context("no guest was seen")?,
        Shown::Mib,
        Reach::AtMost(MOST_GUEST_MIB),
    );
    report.claim(
        "the server",
        server_mib.p50()?,
        Shown::Mib,
        Reach::AtMost(MOST_SERVER_MIB),
    );
    report.note(format!(
        "{booted} of {} held an interpreter that waits",
        guest.count()
    ));
    report.series = vec![guest, rest, server_mib];
    report.note(format!(
        "the last time they stood ready {} s after the server's start",
        filled.as_secs()
    ));
    Ok(report)
}

/// Waits until all of them run, and gives the first process of each as the host numbers it.
fn full(server: &Server, began: Instant) -> anyhow::Result<Vec<u32>> {
    let label = format!("label=belljar.instance={}", instance(server)?);
    loop {
        let ids = docker::command(&["ps", "--quiet", "--filter", &label])?;
        let ids: Vec<&str> = ids.lines().collect();
        if ids.len() >= CONTAINERS {
            let inspect = ["inspect", "--format", "{{.State.Pid}}"];
            let pids = docker::command(&[&inspect[..], &ids].concat())?;
            return pids
                .lines()
                .map(|pid| pid.parse().context("a process id"))
                .collect();
        }
        ensure!(
            began.elapsed() < FILL,
            "only {} of {CONTAINERS} containers stood ready after {} s",
            ids.len(),
            FILL.as_secs()
        );
        sleep(LOOK);
    }
}

/// The server's name among the servers of this daemon: that of the one lock in its state directory.
fn instance(server: &Server) -> anyhow::Result<String> {
    let folder = server.state().join("instances");
    for entry in fs::read_dir(&folder).context("the instances")? {
        let name = entry?.file_name();
        if let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".lock")) {
            return Ok(id.to_owned());
        }
    }
    anyhow::bail!("no instance in {}", folder.display())
}

/// What each of a process's children has resident, in MiB.
fn children_mib(pid: u32) -> Vec<f64> {
    let file = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(file).unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|child| machine::process_mib(child.parse().ok()?, "VmRSS").ok())
        .collect()
}
