//! What was measured where: the machine, the versions, and what the kernel says of a process.
//!
//! Never guesses: what cannot be found out is `unknown`.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, ensure};

use crate::docker;

/// The server under test, built with the optimisations of this benchmark.
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_belljar");
/// What is written for what is not known.
const UNKNOWN: &str = "unknown";

/// The lines about machine and versions, as name and value.
pub(crate) fn facts() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    vec![
        (
            "date",
            first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])),
        ),
        ("processor", processor()),
        ("cores", cores.to_string()),
        (
            "memory",
            memory_kib("MemTotal").map_or_else(
                || UNKNOWN.to_owned(),
                |kib| format!("{:.1} GiB", kib_to_mib(kib) / 1024.0),
            ),
        ),
        ("kernel", kernel()),
        ("belljar", first_line(Command::new(SERVER).arg("--version"))),
        (
            "Docker",
            said(&["version", "--format", "{{.Server.Version}}"]),
        ),
        (
            "runc",
            said(&[
                "version",
                "--format",
                "{{range .Server.Components}}{{if eq .Name \"runc\"}}{{.Version}}{{end}}{{end}}",
            ]),
        ),
        ("storage", said(&["info", "--format", "{{.Driver}}"])),
        ("cgroup", said(&["info", "--format", "v{{.CgroupVersion}}"])),
        ("runsc", first_line(Command::new("runsc").arg("--version"))),
        ("python", inside("belljar/python:latest", "python3")),
        ("node", inside("belljar/javascript:latest", "node")),
        ("bash", inside("belljar/bash:latest", "bash")),
    ]
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(|| UNKNOWN.to_owned(), |(_, name)| name.to_owned())
}

/// The kernel without what its builder called it.
fn kernel() -> String {
    let full = first_line(Command::new("uname").arg("-sr"));
    full.split('-').next().unwrap_or_default().to_owned()
}

fn first_line(command: &mut Command) -> String {
    command
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

fn said(arguments: &[&str]) -> String {
    docker::command(arguments).unwrap_or_else(|_| UNKNOWN.to_owned())
}

fn inside(image: &str, interpreter: &str) -> String {
    let version = said(&[
        "run",
        "--rm",
        "--network=none",
        image,
        interpreter,
        "--version",
    ]);
    version.lines().next().unwrap_or(UNKNOWN).to_owned()
}

/// A figure of `/proc/meminfo`, in KiB.
pub(crate) fn memory_kib(field: &str) -> Option<u64> {
    figure(Path::new("/proc/meminfo"), field)
}

/// A figure of a process's status, in MiB.
pub(crate) fn process_mib(pid: u32, field: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    figure(Path::new(&path), field)
        .map(kib_to_mib)
        .with_context(|| format!("{path} has no {field}"))
}

/// The most that a process had resident so far, in MiB.
pub(crate) fn peak_mib(pid: u32) -> anyhow::Result<f64> {
    process_mib(pid, "VmHWM")
}

fn figure(file: &Path, field: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no machine has 2^53 KiB of memory"
)]
fn kib_to_mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Whether this build of the server has such a section in its configuration.
pub(crate) fn configures(section: &str) -> anyhow::Result<bool> {
    let output = Command::new(SERVER)
        .args(["config", "schema"])
        .output()
        .context("ask the server for its configuration's schema")?;
    ensure!(output.status.success(), "belljar config schema: {output:?}");
    let schema: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("the configuration's schema")?;
    Ok(!schema["properties"][section].is_null())
}
