//! The rows of the table, one file for each group.

mod cold;
mod egress;
mod files;
mod fresh;
mod idle;
mod output;
mod session;
mod start;
mod sustained;

use crate::{context::Context, report::Report};

/// A row of the table.
pub(crate) struct Row {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it is about.
    pub(crate) title: &'static str,
    /// Rounds unless the command line says otherwise.
    pub(crate) rounds: usize,
    /// Runs it.
    pub(crate) run: fn(&Context, usize) -> anyhow::Result<Report>,
}

/// All of them, in the order in which they are run.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "start",
        title: "start to first answer (`initialize`)",
        rounds: 20,
        run: start::initialize,
    },
    Row {
        name: "fresh-python",
        title: "fresh container, python `print(1)`, warm pool",
        rounds: 20,
        run: fresh::python,
    },
    Row {
        name: "fresh-pandas",
        title: "fresh container, python `import pandas, matplotlib.pyplot`, warm pool",
        rounds: 12,
        run: fresh::pandas,
    },
    Row {
        name: "fresh-javascript",
        title: "fresh container, javascript `console.log(1)`, warm pool",
        rounds: 12,
        run: fresh::javascript,
    },
    Row {
        name: "fresh-bash",
        title: "fresh container, bash `echo 1`, warm pool",
        rounds: 12,
        run: fresh::bash,
    },
    Row {
        name: "fresh-gvisor",
        title: "fresh container under gVisor, python `print(1)`, warm pool",
        rounds: 8,
        run: fresh::gvisor,
    },
    Row {
        name: "cold",
        title: "fresh container, python `print(1)`, empty pool",
        rounds: 15,
        run: cold::python,
    },
    Row {
        name: "session",
        title: "second run in a session, python `print(1)`",
        rounds: 30,
        run: session::again,
    },
    Row {
        name: "sustained",
        title: "sustained fresh containers per second, 1, 4 and 16 clients",
        rounds: 2,
        run: sustained::fresh,
    },
    Row {
        name: "output",
        title: "1 GiB of output",
        rounds: 2,
        run: output::gibibyte,
    },
    Row {
        name: "files",
        title: "upload and fetch 100 MiB",
        rounds: 4,
        run: files::both_ways,
    },
    Row {
        name: "egress",
        title: "requests through an egress profile, passed through and intercepted",
        rounds: 5,
        run: egress::proxied,
    },
    Row {
        name: "idle",
        title: "200 idle warm containers",
        rounds: 1,
        run: idle::resident,
    },
];
