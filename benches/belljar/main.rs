//! How long a client waits, and for what: belljar side by side with what a user would take instead.
//!
//! `make bench` builds everything, runs every row of [`rows::ROWS`] on a release build, prints the table and writes it to
//! `BENCHMARKS.md`. It needs a Docker daemon on this machine and belljar's images, and removes what it made. Timings are
//! told here and judged by people; the test suite never asserts one.
//!
//! To add a row:
//!
//! 1. A function in the file of `rows/` that it belongs to, or in a new one: it takes a [`context::Context`] and the number of
//!    rounds, and gives a [`report::Report`].
//! 2. In it a loop of rounds, in which each candidate is timed once, with [`quiet::settle`] before each; a
//!    [`stats::Series`] per candidate, ours first; `compares` in words: what each side's time includes.
//! 3. Its claims: [`report::Report::ratio`] with its reach. What this machine may lack is a [`report::Lacking`].
//! 4. A line in [`rows::ROWS`].

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is this program's output"
)]

mod api;
mod arguments;
mod attach;
mod blueprint;
mod client;
mod context;
mod docker;
mod inside;
mod machine;
mod program;
mod quiet;
mod report;
mod rows;
mod stats;
mod table;

use std::{fs, path::Path, process::ExitCode, time::Instant};

use anyhow::Context as _;

use arguments::Arguments;
use context::Context;
use report::Ended;
use rows::{ROWS, Row};

/// Where the whole table goes.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/BENCHMARKS.md");

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    if arguments.is_test() {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        for row in ROWS {
            println!("{:<18} {} ({} rounds)", row.name, row.title, row.rounds);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<&Row> = ROWS
        .iter()
        .filter(|row| arguments.wants(row.name))
        .collect();
    anyhow::ensure!(!chosen.is_empty(), "no row is named so: see --list");
    let context = Context::new()?;
    let facts = machine::facts();
    let mut ran: Vec<(&Row, usize, Ended)> = Vec::new();
    for row in chosen {
        let rounds = arguments.rounds.unwrap_or(row.rounds);
        eprintln!("bench: {} ({rounds} rounds)", row.name);
        let (began, _) = (Instant::now(), quiet::given_up());
        let mut ended = Ended::of((row.run)(&context, rounds));
        let given_up = quiet::given_up();
        if let Ended::Ran(report) = &mut ended
            && given_up > 0
        {
            report.note(format!(
                "{given_up} times the machine was not quiet when a candidate began"
            ));
        }
        tell(row, &ended, began);
        ran.push((row, rounds, ended));
    }
    let command = std::env::args().skip(1).filter(|word| word != "--bench");
    let command: Vec<String> = ["cargo bench --bench belljar --".to_owned()]
        .into_iter()
        .chain(command)
        .collect();
    let document = table::document(&command.join(" "), &facts, &ran);
    println!("{document}");
    if let Some(file) = &arguments.write {
        write(file, &document)?;
    } else if ran.len() == ROWS.len() {
        write(Path::new(DOCUMENT), &document)?;
    }
    let whole = |ended: &Ended| match ended {
        Ended::Ran(_) | Ended::Skipped(_) => true,
        Ended::Failed(_) => false,
    };
    // Figures are for people to judge; a row that did not come to its end is an error.
    Ok(if ran.iter().all(|(_, _, ended)| whole(ended)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One line on how a row ended, for whoever waits.
fn tell(row: &Row, ended: &Ended, began: Instant) {
    let verdict = match ended {
        Ended::Ran(report) if report.holds() => "every reach met".to_owned(),
        Ended::Ran(_) => "NOT every reach met".to_owned(),
        Ended::Skipped(why) => format!("SKIPPED: {why}"),
        Ended::Failed(why) => format!("FAILED: {why}"),
    };
    let failures = match ended {
        Ended::Ran(report) if report.failures() > 0 => {
            format!(", {} failures", report.failures())
        }
        Ended::Ran(_) | Ended::Skipped(_) | Ended::Failed(_) => String::new(),
    };
    let took = began.elapsed().as_secs();
    eprintln!("bench: {}: {verdict}{failures} ({took} s)", row.name);
}

fn write(file: &Path, document: &str) -> anyhow::Result<()> {
    fs::write(file, document).with_context(|| format!("write {}", file.display()))?;
    eprintln!("bench: wrote {}", file.display());
    Ok(())
}
