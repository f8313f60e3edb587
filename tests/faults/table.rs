//! The matrix as a table, for people.

use serde_json::Value;

use crate::{
    cell::{Break, Cell},
    server::said,
};

/// What became of a cell.
pub(crate) struct Row {
    pub(crate) cell: Cell,
    /// Until its answer.
    pub(crate) seconds: u64,
    /// What the caller was told, in short.
    pub(crate) answer: String,
    /// What did not hold.
    pub(crate) wrong: Vec<String>,
}

/// What a caller was told, in short.
pub(crate) fn short(answer: &Value) -> String {
    let result = &answer["structuredContent"];
    match result["status"].as_str() {
        Some(status) => format!(
            "{status} {:?}",
            result["stdout"]["text"].as_str().unwrap_or("")
        ),
        None => said(answer).chars().take(90).collect(),
    }
}

/// A cell's line in the table, without what came of it.
pub(crate) fn name(cell: &Cell) -> String {
    let (step, fault) = match cell.breaks {
        Break::Call {
            step,
            fault,
            skip,
            times,
        } => {
            let which = if skip > 0 { " (the next)" } else { "" };
            let often = if times > 1 {
                format!(" × {times}")
            } else {
                String::new()
            };
            (
                format!("{}{which}", step.name()),
                format!("{fault:?}{often}"),
            )
        }
        Break::Stream(phase, breach) => {
            (format!("stream: {}", phase.name()), format!("{breach:?}"))
        }
        Break::RunAndCall(breach, step, fault) => (
            format!("run {breach:?}, {}", step.name()),
            format!("{fault:?}"),
        ),
        Break::Seeding(step, fault, _) => {
            (format!("seeding: {}", step.name()), format!("{fault:?}"))
        }
        Break::Every(fault) => ("every call".to_owned(), format!("{fault:?}")),
    };
    format!(
        "{step:<26} {fault:<16} {:<8} {:<8}",
        format!("{:?}", cell.act),
        format!("{:?}", cell.on)
    )
}

/// The table of the whole matrix.
pub(crate) fn print(rows: &[Row]) {
    println!(
        "{:<26} {:<16} {:<8} {:<8} {:>4}  answer",
        "step", "fault", "call", "server", "s"
    );
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let verdict = if row.wrong.is_empty() {
                "held"
            } else {
                "FAILED"
            };
            format!(
                "{} {:>4}  {verdict:<6} {}",
                name(&row.cell),
                row.seconds,
                row.answer
            )
        })
        .collect();
    lines.sort();
    for line in lines {
        println!("{line}");
    }
}
