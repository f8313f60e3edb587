//! `belljar run`: one program in a sandbox, for people. The same path as the tool `run_code`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use tokio_util::sync::CancellationToken;

use super::app::App;
use crate::{
    broker::RunReport,
    config::{Environment, Settings},
    policy::{MAX_CODE_BYTES, RunAsk},
    types::{Caller, LimitsRequest, Status, read_at_most},
};

/// Exit status where the program did not end by itself, as `timeout` and shells use it.
const EXIT_TIMED_OUT: u8 = 124;
/// Exit status where belljar or the sandbox failed.
const EXIT_FAILED: u8 = 125;
/// What shells add to the number of a signal; the number itself is not kept.
const EXIT_SIGNALED: u8 = 128;

/// What `belljar run` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Language of the program: python, javascript, bash, …
    language: String,
    /// File that holds the program; `-` or nothing reads it from standard input.
    file: Option<PathBuf>,
    /// Arguments of the program.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
    /// Wall-clock time in seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
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
    let ask = RunAsk {
        language: args.language,
        code: source(args.file)?,
        stdin: None,
        args: args.arguments,
        env: BTreeMap::new(),
        files: Vec::new(),
        timeout_seconds: args.timeout,
        limits: LimitsRequest {
            memory_mib: args.memory,
            ..LimitsRequest::default()
        },
        network: None,
    };
    let runtime = super::runtime()?;
    let report = runtime.block_on(async {
        let app = App::start(settings, environment)?;
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
        report.map_err(|refusal| anyhow::anyhow!("{}", refusal.message()))
    })?;
    print(&report)?;
    Ok(status(&report))
}

fn source(file: Option<PathBuf>) -> anyhow::Result<String> {
    // One byte more than is allowed: the policy then refuses it with its own words.
    let most = MAX_CODE_BYTES as u64 + 1;
    let code = match file.filter(|file| file.as_os_str() != "-") {
        Some(path) => File::open(&path)
            .and_then(|file| read_at_most(file, most))
            .with_context(|| format!("read {}", path.display()))?,
        None => read_at_most(io::stdin().lock(), most).context("read standard input")?,
    };
    match String::from_utf8(code) {
        Ok(code) => Ok(code),
        Err(_) => bail!("the program is not UTF-8"),
    }
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
    match report.status {
        Status::Exited => Ok(()),
        other => writeln!(err, "belljar: {}", other.name()),
    }
}

fn status(report: &RunReport) -> ExitCode {
    ExitCode::from(match report.status {
        Status::Exited => u8::try_from(report.exit_code.unwrap_or_default()).unwrap_or(EXIT_FAILED),
        Status::TimedOut => EXIT_TIMED_OUT,
        Status::Signaled | Status::OutOfMemory => EXIT_SIGNALED,
        Status::OutputLimit | Status::Cancelled | Status::SandboxLost => EXIT_FAILED,
    })
}
