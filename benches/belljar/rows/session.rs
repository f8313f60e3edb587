//! A further run in a session, side by side with the start of the same program in a running container.

use crate::{
    client::Server,
    context::{Context, Runtime},
    inside::Inside,
    program::PRINT,
    quiet::settle,
    report::{Reach, Report},
    stats::Series,
};

/// The most that the way through belljar may add to a process.
const MOST: f64 = 1.3;

pub(super) fn again(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let blueprint = context.blueprint(PRINT.language, Runtime::Default)?;
    let mut bare = Inside::start(&blueprint, &PRINT, &PRINT.in_file())?;
    let server = Server::start("", &[])?;
    let session = server.open_session(PRINT.language.name)?;
    server.run(&PRINT, Some(&session))?;
    let mut ours = Series::new("belljar: `run_code` in a session");
    let mut theirs = Series::new("bare start in a running container");
    for _ in 0..rounds {
        settle();
        ours.record_run(server.run(&PRINT, Some(&session)));
        settle();
        theirs.record(bare.once());
    }
    server.stop()?;

    let mut report = Report::new(
        "`print(1)` over MCP in a session that ran a program before, from the call to its answer; and `python3 FILE` \
         started by bash in a running container of the same hardening, measured there, from before its fork to after its \
         end.",
    );
    report.ratio(
        "p50 to the bare start",
        ours.p50()?,
        theirs.p50()?,
        Reach::AtMost(MOST),
    );
    report.series = vec![ours, theirs];
    Ok(report)
}
