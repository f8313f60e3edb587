//! The `docker` command, for what no time is taken of, and for `docker run`, which is a candidate itself.

use std::{
    process::{Command, Output},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

fn output(arguments: &[&str]) -> anyhow::Result<Output> {
    let output = Command::new("docker")
        .args(arguments)
        .output()
        .context("start the docker command")?;
    ensure!(
        output.status.success(),
        "docker {}: {}",
        arguments.first().unwrap_or(&""),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output)
}

/// Runs `docker` and gives what it printed, trimmed.
pub(crate) fn command(arguments: &[&str]) -> anyhow::Result<String> {
    let text = String::from_utf8(output(arguments)?.stdout).context("docker's output")?;
    Ok(text.trim().to_owned())
}

/// How long `docker run` with these arguments takes from its start to its end, having printed `prints`.
pub(crate) fn timed_run(arguments: &[String], prints: &str) -> anyhow::Result<Duration> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let began = Instant::now();
    let output = output(&arguments)?;
    let took = began.elapsed();
    ensure!(
        output.stdout == prints.as_bytes(),
        "docker run printed {:?}",
        String::from_utf8_lossy(&output.stdout)
    );
    Ok(took)
}

/// Whether the daemon knows this runtime.
pub(crate) fn has_runtime(name: &str) -> anyhow::Result<bool> {
    let format = "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}";
    let known = command(&["info", "--format", format])?;
    Ok(known.split_whitespace().any(|known| known == name))
}
