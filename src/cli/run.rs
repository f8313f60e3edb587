//! `belljar run`: one program in a sandbox, for people. The same path as the tool `run_code`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::app::App;
use crate::{
    broker::RunReport,
    config::{Environment, Settings},
    policy::{MAX_CODE_BYTES, MAX_STDIN_BYTES, RunAsk},
    tools,
    types::{Caller, LimitsRequest, Status, read_at_most},
};

/// Exit status where the program did not end by itself, as `timeout` and shells use it.
const EXIT_TIMED_OUT: u8 = 124;
/// Exit status where belljar refused or failed, or the sandbox was lost, as `docker run` uses it.
const EXIT_FAILED: u8 = 125;
/// What shells add to the number of the signal that ended a program.
const EXIT_SIGNALED: u8 = 128;

/// What `belljar run` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Language of the program: python, javascript, bash, …
    language: String,
    /// File that holds the program, which then reads standard input; `-` or nothing reads the program from there.
    file: Option<PathBuf>,
    /// Arguments of the program, after `--`.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
    /// Wall-clock time in seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Egress profile of the configuration, which says what the program may reach; without one nothing.
    #[arg(long, value_name = "PROFILE")]
    network: Option<String>,
    /// Package to install before the program, such as `six==1.17.0`; once for each.
    #[arg(long = "package", value_name = "SPEC")]
    packages: Vec<String>,
    /// Memory in MiB.
    #[arg(long, value_name = "MIB")]
    memory: Option<u32>,
}

/// Runs the program and prints its output, with visible escapes; the exit status is the program's.
pub(super) fn run(
    args: Args,
    settings: &Settings,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let (code, stdin) = inputs(args.file)?;
    let ask = RunAsk {
        language: args.language,
        code,
        stdin,
        args: args.arguments,
        env: BTreeMap::new(),
        files: Vec::new(),
        timeout_seconds: args.timeout,
        limits: LimitsRequest {
            memory_mib: args.memory,
            ..LimitsRequest::default()
        },
        network: args.network,
        packages: args.packages,
    };
    let runtime = super::runtime()?;
    let report = runtime.block_on(async {
        let app = App::for_one_run(settings, environment)?;
        let cancelled = CancellationToken::new();
        let interrupt = cancelled.clone();
        let watcher = tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupt.cancel();
            }
        });
        let report = app
            .broker()
            .run(&Caller::Local, None, ask, &cancelled)
            .await;
        watcher.abort();
        app.stop().await;
        anyhow::Ok(report)
    })?;
    match report {
        Ok(report) => {
            print(&report)?;
            Ok(status(&report))
        }
        Err(refusal) => {
            writeln!(io::stderr().lock(), "belljar: {}", refusal.message())?;
            Ok(ExitCode::from(EXIT_FAILED))
        }
    }
}

/// The program, and what it reads: standard input belongs to the program where the code is in a file.
fn inputs(file: Option<PathBuf>) -> anyhow::Result<(String, Option<String>)> {
    // One byte more than is allowed: the policy then refuses it with its own words.
    let most = |bytes: usize| bytes as u64 + 1;
    let standard =
        |bytes| read_at_most(io::stdin().lock(), most(bytes)).context("read standard input");
    let Some(path) = file.filter(|file| file.as_os_str() != "-") else {
        return Ok((text("the program", standard(MAX_CODE_BYTES)?)?, None));
    };
    let code = File::open(&path)
        .and_then(|file| read_at_most(file, most(MAX_CODE_BYTES)))
        .with_context(|| format!("read {}", path.display()))?;
    let stdin = if io::stdin().is_terminal() {
        None
    } else {
        Some(text("standard input", standard(MAX_STDIN_BYTES)?)?)
    };
    Ok((text("the program", code)?, stdin))
}

fn text(what: &str, bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{what} is not UTF-8"))
}

fn print(report: &RunReport) -> io::Result<()> {
    io::stdout()
        .lock()
        .write_all(report.stdout.shown.text().as_bytes())?;
    let mut err = io::stderr().lock();
    err.write_all(report.stderr.shown.text().as_bytes())?;
    for artifact in &report.artifacts {
        if let Some(id) = &artifact.artifact_id {
            writeln!(
                err,
                "artifact {id}: {} ({} bytes)",
                artifact.path, artifact.bytes
            )?;
        }
    }
    for denied in &report.egress.denied {
        writeln!(
            err,
            "belljar: denied {}:{}: {} ({})",
            denied.host, denied.port, denied.reason, denied.count
        )?;
    }
    for failed in &report.egress.failed {
        writeln!(
            err,
            "belljar: no answer from {}:{}: {} ({})",
            failed.host, failed.port, failed.reason, failed.count
        )?;
    }
    if report.packages.is_some_and(|packages| !packages.complete) {
        writeln!(
            err,
            "\nbelljar: packages not installed; the program did not start. The output is the installer's"
        )?;
    }
    match report.status {
        Status::Exited => Ok(()),
        Status::Signaled
        | Status::TimedOut
        | Status::OutOfMemory
        | Status::OutputLimit
        | Status::Cancelled
        | Status::SandboxLost => writeln!(err, "\nbelljar: {}", tools::account(report)),
    }
}

fn status(report: &RunReport) -> ExitCode {
    // The status is the installer's: the program has none.
    if report.packages.is_some_and(|packages| !packages.complete) {
        return ExitCode::from(EXIT_FAILED);
    }
    ExitCode::from(match report.status {
        Status::Exited => u8::try_from(report.exit_code.unwrap_or_default()).unwrap_or(EXIT_FAILED),
        Status::TimedOut => EXIT_TIMED_OUT,
        Status::Signaled | Status::OutOfMemory => report
            .signal
            .and_then(|number| u8::try_from(number).ok())
            .map_or(EXIT_FAILED, |number| EXIT_SIGNALED.saturating_add(number)),
        Status::OutputLimit | Status::Cancelled | Status::SandboxLost => EXIT_FAILED,
    })
}
