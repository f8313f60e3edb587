//! `belljar audit tail|show|verify`: the record, for the person who owns it.
//!
//! Reads only. Text from the log, code and output are escaped: they were written by whom the record is about.

use std::{
    io::{self, Write},
    path::Path,
};

use clap::{Args, Subcommand};

use crate::{
    artifact::{Entry, Options, Store, StoreError},
    audit::{
        Decision, EgressCounts, EgressRecord, Fault, FileRecord, Line, LogReport, Logs, ReadError,
    },
    output::show_bytes,
    types::{IdError, KIB, RunId, visible},
};

/// Events that `tail` shows unless told otherwise.
const TAIL_EVENTS: usize = 20;
/// The most of each kept code or output that `show` prints, in bytes: a person reads no more at a terminal.
const SHOWN_RECORD_BYTES: u64 = 256 * KIB;

/// Reads the audit log of this state directory.
#[derive(Clone, Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum AuditCommand {
    /// Shows the latest events of all servers.
    Tail {
        /// How many.
        #[arg(short = 'n', long, default_value_t = TAIL_EVENTS)]
        lines: usize,
        /// Print each event as a line of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows what is recorded of one run, with its code and output while they are kept.
    Show {
        /// The run's id, as its result gave it.
        #[arg(value_name = "RUN_ID", value_parser = parse_run_id)]
        run: RunId,
        /// Print each event as a line of JSON, without code and output.
        #[arg(long)]
        json: bool,
    },
    /// Checks that no line of any log was changed, removed or put in, and that each log ends no earlier than the logs which
    /// began later found it. So what was cut off, written anew or removed shows if a log that began after it was whole is
    /// still there. It does not show of lines written since the last other server started, nor where the newest logs were
    /// removed together, or all of them; a server that starts afterwards does not bring it to light. Told and no fault is a
    /// last line that is not whole, which a server leaves that is killed while it writes, and that the logs which ended
    /// first are gone.
    Verify,
}

fn parse_run_id(text: &str) -> Result<RunId, IdError> {
    RunId::parse(text)
}

/// How the command ended, for the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuditExit {
    /// All well: exit status 0.
    Fine,
    /// The run is unknown, or a log was tampered with: exit status 1.
    Failed,
}

/// Why the command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuditCliError {
    /// A log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What is kept of a run could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody takes what is printed.
    #[error("print the record")]
    Print(#[from] io::Error),
}

/// Runs the command on a state directory and prints to `out`.
pub(super) async fn run(
    args: &AuditArgs,
    state_dir: &Path,
    out: &mut (impl Write + ?Sized),
) -> Result<AuditExit, AuditCliError> {
    let logs = Logs::open(state_dir.join("audit"));
    match &args.command {
        AuditCommand::Tail { lines, json } => {
            let latest = logs.tail(*lines)?;
            if latest.is_empty() && *lines > 0 && !json {
                nothing(state_dir, out)?;
            }
            for line in latest {
                if *json {
                    print_json(&line, out)?;
                } else {
                    writeln!(out, "{}", summary(&line))?;
                }
            }
            Ok(AuditExit::Fine)
        }
        AuditCommand::Show { run, json } => {
            let lines = logs.of_run(run)?;
            if lines.is_empty() {
                writeln!(
                    out,
                    "no event of run {run} in {}",
                    state_dir.join("audit").display()
                )?;
                return Ok(AuditExit::Failed);
            }
            for line in &lines {
                if *json {
                    print_json(line, out)?;
                } else {
                    print_event(line, out)?;
                }
            }
            if !json {
                print_records(run, state_dir, out).await?;
            }
            Ok(AuditExit::Fine)
        }
        AuditCommand::Verify => {
            let reports = logs.verify()?;
            if reports.is_empty() {
                nothing(state_dir, out)?;
            }
            verify(reports, out)
        }
    }
}

/// Silence would look like a log in which all is well.
fn nothing(state_dir: &Path, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    writeln!(
        out,
        "no event in {}: nothing has run with this state directory, or BELLJAR_STATE_DIR is another's",
        state_dir.join("audit").display()
    )
}

fn verify(
    reports: Vec<LogReport>,
    out: &mut (impl Write + ?Sized),
) -> Result<AuditExit, AuditCliError> {
    let mut exit = AuditExit::Fine;
    for report in reports {
        let name = report.path.file_name().unwrap_or_default();
        let name = visible::escape_name(name.as_encoded_bytes());
        match report.fault {
            None => writeln!(out, "ok      {name}: {} events", report.lines)?,
            Some(Fault::ThrownAway) => {
                writeln!(
                    out,
                    "gone    {name}: not there, nor any older log that there was"
                )?;
            }
            Some(Fault::Removed) => {
                exit = AuditExit::Failed;
                writeln!(
                    out,
                    "failed  {name}: not there, though logs are that ended earlier; a later log found {} events in it",
                    report.lines + 1
                )?;
            }
            Some(_) if report.holds() => writeln!(
                out,
                "torn    {name}: {} events, and the beginning of another that the server was killed while writing, or is writing now",
                report.lines
            )?,
            Some(fault) => {
                exit = AuditExit::Failed;
                writeln!(out, "failed  {name}: line {} {fault}", report.lines + 1)?;
            }
        }
    }
    Ok(exit)
}

/// JSON escapes control characters, but not the invisible ones; within its strings `\u` does for both.
fn print_json(line: &Line, out: &mut (impl Write + ?Sized)) -> Result<(), AuditCliError> {
    let json = serde_json::to_string(line).map_err(io::Error::from)?;
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if visible::is_forbidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a `String` cannot fail.
                let _ = std::fmt::Write::write_fmt(&mut safe, format_args!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    writeln!(out, "{safe}")?;
    Ok(())
}

/// One event on one line.
fn summary(line: &Line) -> String {
    let event = &line.event;
    let mut parts = vec![format!("{:.3} {:<14}", line.time, event.action.name())];
    parts.push(match &event.decision {
        Decision::Allow { .. } => "allow".to_owned(),
        Decision::Deny { reason } => format!("deny ({})", escape(reason)),
    });
    parts.extend(event.language.as_deref().map(escape));
    parts.extend(event.egress.as_ref().map(wanted));
    if let Some(outcome) = &event.outcome {
        parts.push(outcome.status.name().to_owned());
        parts.extend(outcome.exit_code.map(|code| code.to_string()));
        parts.extend(outcome.signal.map(|signal| format!("by signal {signal}")));
        parts.push(format!("in {} ms", outcome.duration_ms));
    }
    parts.extend(
        event
            .error
            .as_deref()
            .map(|error| format!("error: {}", escape(error))),
    );
    parts.extend(event.run_id.as_ref().map(|run| format!("run {run}")));
    parts.extend(
        event
            .session
            .as_ref()
            .map(|session| format!("session {session}")),
    );
    parts.join(" ")
}

/// What a program wanted to reach, as it was decided on.
fn wanted(egress: &EgressRecord) -> String {
    let EgressRecord {
        method,
        scheme,
        host,
        port,
        target,
        address: _,
        secrets: _,
    } = egress;
    let method = method.as_deref().unwrap_or("CONNECT");
    let scheme = scheme
        .as_deref()
        .map(|scheme| format!("{scheme}://"))
        .unwrap_or_default();
    let target = target.as_deref().unwrap_or_default();
    escape(&format!("{method} {scheme}{host}:{port}{target}"))
}

/// Everything that an event says, a line a field.
fn print_event(line: &Line, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let event = &line.event;
    writeln!(out, "{}", summary(line))?;
    field(out, "caller", Some(&event.caller))?;
    field(
        out,
        "server",
        Some(format!("{} event {}", line.instance, line.seq)),
    )?;
    let code = event
        .code_sha256
        .map(|sha256| sized(sha256, event.code_bytes.unwrap_or(0)));
    field(out, "code", code)?;
    field(
        out,
        "arguments",
        event.args_sha256.map(|sha256| format!("sha256 {sha256}")),
    )?;
    for var in &event.env {
        field(
            out,
            "variable",
            Some(format!("{} (value sealed)", escape(&var.name))),
        )?;
    }
    omitted(out, "variables", event.env_omitted)?;
    files(out, "input", &event.inputs)?;
    omitted(out, "inputs", event.inputs_omitted)?;
    let limits = event.limits.map(|limits| {
        format!(
            "{} MiB memory, {} thousandths of a cpu, {} pids, {} MiB workspace, {} KiB output",
            limits.memory_mib,
            limits.cpus_milli,
            limits.pids,
            limits.workspace_mib,
            limits.output_kib
        )
    });
    field(out, "limits", limits)?;
    field(
        out,
        "timeout",
        event.timeout_ms.map(|ms| format!("{ms} ms")),
    )?;
    if let Some(egress) = &event.egress {
        field(out, "address", egress.address.as_deref().map(escape))?;
        for name in &egress.secrets {
            field(out, "secret", Some(escape(name)))?;
        }
    }
    let counts = event.egress_counts.map(|counts| {
        let EgressCounts {
            allowed,
            denied,
            failed,
        } = counts;
        format!("{allowed} allowed, {failed} of them without an answer, {denied} denied")
    });
    field(out, "egress", counts)?;
    field(out, "network", event.network.as_deref().map(escape))?;
    field(out, "image", event.image_id.as_deref().map(escape))?;
    field(out, "runtime", event.runtime.as_deref().map(escape))?;
    for (name, stream) in [("stdout", event.stdout), ("stderr", event.stderr)] {
        field(
            out,
            name,
            stream.map(|stream| sized(stream.sha256, stream.bytes)),
        )?;
    }
    files(out, "artifact", &event.artifacts)?;
    omitted(out, "artifacts", event.artifacts_omitted)
}

fn field(
    out: &mut (impl Write + ?Sized),
    name: &str,
    value: Option<impl std::fmt::Display>,
) -> io::Result<()> {
    match value {
        Some(value) => writeln!(out, "  {name:<10} {value}"),
        None => Ok(()),
    }
}

fn files(out: &mut (impl Write + ?Sized), name: &str, files: &[FileRecord]) -> io::Result<()> {
    for file in files {
        let content = match file.sha256 {
            Some(sha256) => sized(sha256, file.bytes),
            None => format!("{} bytes", file.bytes),
        };
        field(
            out,
            name,
            Some(format!("{} ({content})", escape(&file.path))),
        )?;
    }
    Ok(())
}

fn omitted(out: &mut (impl Write + ?Sized), name: &str, count: u64) -> io::Result<()> {
    field(
        out,
        name,
        Some(format!("{count} more")).filter(|_| count > 0),
    )
}

fn sized(sha256: impl std::fmt::Display, bytes: u64) -> String {
    format!("{bytes} bytes, sha256 {sha256}")
}

/// For a terminal. A path is in its shown form already; escaping only the forbidden leaves that as it is.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if visible::is_forbidden(c) || matches!(c, '\n' | '\t') {
            visible::push_escaped(&mut safe, c);
        } else {
            safe.push(c);
        }
    }
    safe
}

async fn print_records(
    run: &RunId,
    state_dir: &Path,
    out: &mut (impl Write + ?Sized),
) -> Result<(), AuditCliError> {
    let dir = state_dir.join("artifacts");
    // Opening a store makes it, and who only looks should leave nothing behind.
    if !dir.is_dir() {
        return Ok(());
    }
    let store = Store::open(dir, Options::default())?;
    for entry in store.records_of(run).await? {
        print_record(&store, &entry, out).await?;
    }
    Ok(())
}

async fn print_record(
    store: &Store,
    entry: &Entry,
    out: &mut (impl Write + ?Sized),
) -> Result<(), AuditCliError> {
    writeln!(out, "--- {} ({} bytes)", escape(&entry.name), entry.bytes)?;
    match store.read(entry, 0, SHOWN_RECORD_BYTES).await {
        Ok(bytes) => {
            let shown = show_bytes(&bytes, usize::MAX);
            out.write_all(shown.text().as_bytes())?;
            if !shown.text().ends_with('\n') {
                writeln!(out)?;
            }
            let more = entry.bytes - bytes.len() as u64;
            if more > 0 {
                writeln!(out, "--- {more} bytes more")?;
            }
        }
        // The log outlives what is kept beside it.
        Err(error @ (StoreError::Expired | StoreError::NotFound | StoreError::Damaged)) => {
            writeln!(out, "--- not kept any more: {error}")?;
        }
        Err(
            error @ (StoreError::TooLarge { .. }
            | StoreError::Locked
            | StoreError::Io { .. }
            | StoreError::Stopping
            | StoreError::Panicked),
        ) => return Err(error.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
