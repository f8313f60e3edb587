//! The table as Markdown, for the terminal and for `BENCHMARKS.md`.
//!
//! Never leaves a row out: one that was skipped or failed says so where its figures would be.

use std::fmt::Write as _;

use crate::{
    report::{Ended, Report},
    rows::Row,
    stats::{Series, Unit},
};

/// The percentiles shown.
const PERCENTILES: [usize; 4] = [50, 95, 99, 100];

/// All of it.
pub(crate) fn document(
    command: &str,
    facts: &[(&str, String)],
    rows: &[(&Row, usize, Ended)],
) -> String {
    let mut text = String::from(
        "# Benchmarks\n\n\
         Written by `make bench`, which anyone can repeat: it needs a Docker daemon on this machine, builds belljar and \
         its images, and takes a few minutes on a machine that does nothing else. For the rows under gVisor first run \
         `scripts/gvisor.sh`. `cargo bench --bench belljar -- --list` names the rows; some of them, and more rounds, by \
         `cargo bench --bench belljar -- fresh --rounds 100`.\n\n\
         In each row the candidates alternate, round by round, and each waits until the machine is quiet again. All get \
         the same hardening: it is read back from a container that belljar made. Percentiles are by nearest rank, so \
         that with few rounds p99 is the largest. A failed round is counted and has no time. What a row's ratio compares are \
         medians.\n\n",
    );
    text.push_str("| | |\n|---|---|\n");
    for (name, value) in facts {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let _ = writeln!(text, "| command | `{command}` |\n");
    text.push_str(&claims(rows));
    for (row, rounds, ended) in rows {
        let _ = write!(text, "\n## {}: {}\n\n", row.name, row.title);
        match ended {
            Ended::Ran(report) => text.push_str(&series(report, *rounds)),
            Ended::Skipped(why) => {
                let _ = writeln!(text, "**Skipped**: {why}.");
            }
            Ended::Failed(why) => {
                let _ = writeln!(text, "**Failed**: {why}.");
            }
        }
    }
    text
}

/// One line for each claim.
pub(crate) fn claims(rows: &[(&Row, usize, Ended)]) -> String {
    let mut text = String::from("| row | what | reach | measured | |\n|---|---|---|---|---|\n");
    for (row, _, ended) in rows {
        match ended {
            Ended::Ran(report) => {
                for claim in &report.claims {
                    let _ = writeln!(
                        text,
                        "| {} | {} | {} | {} | {} |",
                        row.name,
                        claim.what,
                        claim.reach(),
                        claim.measured(),
                        claim.verdict()
                    );
                }
            }
            Ended::Skipped(why) => {
                let _ = writeln!(
                    text,
                    "| {} | {} | | | **skipped**: {why} |",
                    row.name, row.title
                );
            }
            Ended::Failed(why) => {
                let why = why.lines().next().unwrap_or_default();
                let _ = writeln!(
                    text,
                    "| {} | {} | | | **failed**: {why} |",
                    row.name, row.title
                );
            }
        }
    }
    text
}

/// A row in full.
fn series(report: &Report, rounds: usize) -> String {
    let mut text = format!("{}\n\nRounds: {rounds}.\n\n", report.compares);
    text.push_str("| | p50 | p95 | p99 | max | failures | rate |\n|---|---|---|---|---|---|---|\n");
    for series in &report.series {
        let figures: String = PERCENTILES
            .iter()
            .map(|percent| format!(" {} |", figure(series, *percent)))
            .collect();
        let rate = series.rate().map_or_else(String::new, |rate| {
            format!("{:.1} {}/s", rate.per_second, rate.of)
        });
        let all = series.count() + series.failures();
        let _ = writeln!(
            text,
            "| {} |{figures} {} of {all} | {rate} |",
            series.name,
            series.failures()
        );
    }
    let mut notes = report.notes.clone();
    for series in &report.series {
        let stages: Vec<String> = series
            .stages()
            .into_iter()
            .map(|(name, ms)| format!("{name} {ms:.2}"))
            .collect();
        if !stages.is_empty() {
            notes.push(format!(
                "where the server's time goes, medians in ms: {}",
                stages.join(" · ")
            ));
        }
    }
    for series in &report.series {
        if let Some(why) = series.first_failure() {
            notes.push(format!("{}: the first failure: {why}", series.name));
        }
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn figure(series: &Series, percent: usize) -> String {
    let Some(value) = series.percentile(percent) else {
        return "-".to_owned();
    };
    let digits = match series.unit() {
        // Below a hundred the digits behind the point matter.
        Unit::Ms | Unit::Mib if value < 100.0 => 2,
        Unit::Ms | Unit::Mib => 0,
    };
    format!("{value:.digits$} {}", series.unit().name())
}
