//! `belljar run`: one program in a sandbox, for people. The same path as the tool `run_code`.

use std::{
    borrow::Cow,
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
    broker::{Refusal, RunReport},
    config::{Environment, Settings},
    policy::{MAX_CODE_BYTES, MAX_STDIN_BYTES, RunAsk},
    tools,
    types::{Caller, LimitField, LimitsRequest, Status, read_at_most},
};

/// Exit status where the program did not end by itself, as `timeout` and shells use it.
const EXIT_TIMED_OUT: u8 = 124;
/// Exit status where belljar refused or failed, or the sandbox was lost, as `docker run` uses it.
pub(super) const EXIT_FAILED: u8 = 125;
/// What shells add to the number of the signal that ended a program.
const EXIT_SIGNALED: u8 = 128;
/// Limits that this command line can ask for, by the flag that does.
const FLAGS: [(LimitField, &str); 2] = [
    (LimitField::TimeoutSeconds, "--timeout"),
    (LimitField::MemoryMib, "--memory"),
];

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
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<f64>,
    /// Egress profile of the configuration, which says what the program may reach; without one nothing.
    #[arg(long, value_name = "PROFILE")]
    network: Option<String>,
    /// Package to install before the program, such as `six==1.17.0`; once for each.
    #[arg(long = "package", value_name = "SPEC")]
    packages: Vec<String>,
    /// Memory in MiB.
    #[arg(long, value_name = "MIB", value_parser = mib, allow_negative_numbers = true)]
    memory: Option<u32>,
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .map_err(|_| "write a number of seconds, such as 30 or 0.5, without a unit")
}

fn mib(text: &str) -> Result<u32, &'static str> {
    text.parse()
        .map_err(|_| "write a whole number of MiB, such as 512, without a unit")
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
    let code = runtime.block_on(async {
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
        // Before the end, which takes its time where the daemon is gone.
        let told = tell(&report);
        app.stop().await;
        anyhow::Ok(told?)
    })?;
    Ok(ExitCode::from(code))
}

/// Prints what came of it; gives the exit status.
fn tell(report: &Result<RunReport, Refusal>) -> io::Result<u8> {
    match report {
        Ok(report) => {
            print(report)?;
            Ok(status(report))
        }
        Err(refusal) => {
            let message = in_flags(refusal.message());
            writeln!(io::stderr().lock(), "belljar: {message}")?;
            Ok(EXIT_FAILED)
        }
    }
}

/// A refusal that begins with the name of a limit, as the tool's callers know it: with the name of the flag.
fn in_flags(message: &str) -> Cow<'_, str> {
    let flag = FLAGS.iter().find_map(|(field, flag)| {
        let rest = message.strip_prefix(&field.to_string())?;
        Some(format!(
            "{flag}{rest}; [limits.ceiling] in the configuration sets the most"
        ))
    });
    flag.map_or(Cow::Borrowed(message), Cow::Owned)
}

/// The program, and what it reads: standard input belongs to the program where the code is in a file.
fn inputs(file: Option<PathBuf>) -> anyhow::Result<(String, Option<String>)> {
    // One byte more than is allowed: the policy then refuses it with its own words.
    let most = |bytes: usize| bytes as u64 + 1;
    let standard =
        |bytes| read_at_most(io::stdin().lock(), most(bytes)).context("cannot read standard input");
    let Some(path) = file.filter(|file| file.as_os_str() != "-") else {
        return Ok((text("the program", standard(MAX_CODE_BYTES)?)?, None));
    };
    let code = File::open(&path)
        .and_then(|file| read_at_most(file, most(MAX_CODE_BYTES)))
        .with_context(|| format!("cannot read the program {}", path.display()))?;
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
    let mut out = io::stdout().lock();
    out.write_all(report.stdout.shown.text().as_bytes())?;
    out.flush()?;
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
        | Status::SandboxLost => {
            writeln!(err, "\nbelljar: {}", tools::summary(report))?;
            advice(report.status).map_or(Ok(()), |advice| writeln!(err, "{advice}"))
        }
    }
}

/// What would help, in the words of the command line: a model is told the same of arguments.
fn advice(status: Status) -> Option<&'static str> {
    match status {
        Status::Exited | Status::Signaled | Status::Cancelled => None,
        Status::TimedOut => Some(
            "The program was ended; a larger `--timeout` gives it more time, up to timeout_seconds of \
             [limits.ceiling] in the configuration.",
        ),
        Status::OutOfMemory => Some(
            "A larger `--memory` gives it more, up to memory_mib of [limits.ceiling] in the configuration.",
        ),
        Status::OutputLimit => Some(
            "Write large results to a file, which is kept as an artifact, or raise output_kib of [limits] in the \
             configuration.",
        ),
        Status::SandboxLost => Some(
            "The container died, or the daemon went away; what it wrote before is above. `belljar doctor` looks, and \
             another run may succeed.",
        ),
    }
}

fn status(report: &RunReport) -> u8 {
    // The status is the installer's: the program has none.
    if report.packages.is_some_and(|packages| !packages.complete) {
        return EXIT_FAILED;
    }
    match report.status {
        Status::Exited => u8::try_from(report.exit_code.unwrap_or_default()).unwrap_or(EXIT_FAILED),
        Status::TimedOut => EXIT_TIMED_OUT,
        Status::Signaled | Status::OutOfMemory => report
            .signal
            .and_then(|number| u8::try_from(number).ok())
            .map_or(EXIT_FAILED, |number| EXIT_SIGNALED.saturating_add(number)),
        Status::OutputLimit | Status::Cancelled | Status::SandboxLost => EXIT_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{cli::Cli, types::WallTime};

    #[test]
    fn whoever_typed_flags_reads_of_flags() {
        let error = WallTime::parse(9999.0, WallTime::from_secs(300)).unwrap_err();
        assert_eq!(
            in_flags(&error.to_string()),
            "--timeout must lie between 0.1 and 300; [limits.ceiling] in the configuration sets the most"
        );
        assert_eq!(in_flags("code is empty"), "code is empty");
        assert!(advice(Status::TimedOut).unwrap().contains("`--timeout`"));
        assert!(advice(Status::OutOfMemory).unwrap().contains("`--memory`"));
    }

    #[test]
    fn a_number_with_a_unit_is_refused_in_words() {
        let parse = |words: [&str; 2]| {
            let line = ["belljar", "run", "python"];
            Cli::try_parse_from(line.into_iter().chain(words)).map_err(|error| error.to_string())
        };
        let refused = parse(["--memory", "512M"]).unwrap_err();
        assert!(refused.contains("a whole number of MiB"), "{refused}");
        let refused = parse(["--memory", "-1"]).unwrap_err();
        assert!(refused.contains("a whole number of MiB"), "{refused}");
        let refused = parse(["--timeout", "30s"]).unwrap_err();
        assert!(refused.contains("a number of seconds"), "{refused}");
        // The policy refuses it, with the range.
        assert!(parse(["--timeout", "-1"]).is_ok());
    }
}
