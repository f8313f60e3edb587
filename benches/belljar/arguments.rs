//! The command line: which rows, how many rounds, where the table goes.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

/// How to use it.
pub(crate) const USAGE: &str =
    "usage: cargo bench --bench belljar -- [ROW…] [--rounds N] [--write FILE] [--list]

ROW           rows whose name begins so; all of them unless some are named
--rounds N    rounds of each row instead of its own number
--write FILE  write the table there too
--list        name the rows";

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Beginnings of names; none: all rows.
    pub(crate) rows: Vec<String>,
    /// Instead of each row's own number.
    pub(crate) rounds: Option<usize>,
    /// Where the table is written, beside standard output.
    pub(crate) write: Option<PathBuf>,
    /// Only name the rows.
    pub(crate) list: bool,
    /// Whether to measure: `cargo bench` says so.
    bench: bool,
}

impl Arguments {
    /// Parses them; what is unknown is an error.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut parsed = Self::default();
        let mut arguments = arguments.fuse();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.with_context(|| format!("{argument} needs a value\n{USAGE}"))
            };
            match argument.as_str() {
                "--bench" => parsed.bench = true,
                // Other runners say so when they only test.
                "--test" => return Ok(Self::default()),
                "--list" => parsed.list = true,
                "--rounds" => {
                    let rounds = value()?.parse().context("--rounds takes a number")?;
                    ensure!(rounds > 0, "--rounds takes a number above 0");
                    parsed.rounds = Some(rounds);
                }
                "--write" => parsed.write = Some(value()?.into()),
                name if !name.starts_with('-') => parsed.rows.push(name.to_owned()),
                _ => bail!("unknown argument {argument}\n{USAGE}"),
            }
        }
        Ok(parsed)
    }

    /// Whether `cargo test --benches` started this, which must not wait for it: it gives no argument at all, where
    /// `cargo bench` gives `--bench`.
    pub(crate) fn is_test(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this row was asked for.
    pub(crate) fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|name| row.starts_with(name.as_str()))
    }
}
