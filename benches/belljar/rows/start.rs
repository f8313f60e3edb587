//! From the start of the server's process to the answer to `initialize`.

use std::time::Instant;

use crate::{
    client::Server,
    context::Context,
    quiet::settle,
    report::{Reach, Report, Shown},
    stats::Series,
};

/// The longest median, in milliseconds.
const MOST_MS: f64 = 50.0;

pub(super) fn initialize(_: &Context, rounds: usize) -> anyhow::Result<Report> {
    let mut series = Series::new("belljar");
    for _ in 0..rounds {
        settle();
        let began = Instant::now();
        let server = Server::start("", &[]);
        let took = began.elapsed();
        series.record(server.and_then(Server::stop).map(|()| took));
    }
    let mut report = Report::new(
        "From before the process is made to the answer to `initialize`, with a new state directory and the default \
         configuration.",
    );
    report.claim(
        "p50 of start to first answer",
        series.p50()?,
        Shown::Ms,
        Reach::AtMost(MOST_MS),
    );
    report.series.push(series);
    Ok(report)
}
