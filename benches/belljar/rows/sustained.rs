//! How many fresh containers a second, one after another, for some clients at a time.

use std::{
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use crate::{
    api,
    client::Server,
    context::{Context, Runtime},
    program::PRINT,
    quiet::settle,
    report::{Reach, Report},
    stats::{Rate, Series},
};

/// Clients at a time.
const CLIENTS: [usize; 3] = [1, 4, 16];
/// What is done before anything is counted: whatever stood ready has been used up by then.
const RAMP: Duration = Duration::from_secs(2);
/// How long is counted in a round.
const COUNTED: Duration = Duration::from_secs(6);
/// After a failure, so that a refusal is not asked for thousands of times.
const PAUSE: Duration = Duration::from_millis(50);
/// The least of the raw rate.
const LEAST: f64 = 0.9;

pub(super) fn fresh(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let blueprint = context.blueprint(PRINT.language, Runtime::Default)?;
    let body = blueprint.create(&PRINT.inline())?;
    let (api, docker) = (&context.api, context.api.docker());
    let mut report = Report::new(format!(
        "`print(1)` over MCP again and again, each in a container of its own, by one server with that many calls in \
         flight; and create, start and forced removal through the API with as many at a time, for containers of the same \
         specification whose command is the same program, which is not waited for. A round counts what ends within {} s, \
         after {} s that are not counted, in which a pool that was full is used up.",
        COUNTED.as_secs(),
        RAMP.as_secs(),
    ));
    let server = Server::start("", &[])?;
    server.run(&PRINT, None)?;
    for clients in CLIENTS {
        let mut ours = Series::new(format!("belljar, {clients} in flight"));
        let mut raw = Series::new(format!("API: create, start, remove, {clients} at a time"));
        for _ in 0..rounds {
            settle();
            ours.take_in(slice(clients, &ours.name, || {
                server.run(&PRINT, None).map(|_| ())
            }));
            settle();
            raw.take_in(slice(clients, &raw.name, || {
                api.block_on(async {
                    let id = api::create(&docker, body.clone()).await?;
                    let started = api::start(&docker, &id).await;
                    api::remove(&docker, &id).await?;
                    started
                })
            }));
        }
        let (ours, raw) = (rated(ours, rounds), rated(raw, rounds));
        let rate = |series: &Series| series.rate.map_or(0.0, |rate| rate.per_second);
        report.ratio(
            format!("containers per second to the API's, {clients} at a time"),
            rate(&ours),
            rate(&raw),
            Reach::AtLeast(LEAST),
        );
        report.series.extend([ours, raw]);
    }
    server.stop()?;
    report.remaining(
        "the daemon is the bottleneck on both sides, and is asked more for a sandbox: an inspection and a list before the \
         start, which show that it is what was asked for and that its uid is nobody else's, an attached stream, and an \
         inspection after the removal. The program also runs to its end.",
    );
    Ok(report)
}

/// What ended well within the time that counts.
fn slice(clients: usize, name: &str, work: impl Fn() -> anyhow::Result<()> + Sync) -> Series {
    let all = Mutex::new(Series::new(name));
    let began = Instant::now();
    let end = RAMP + COUNTED;
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut own = Series::new(name);
                while began.elapsed() < end {
                    let asked = Instant::now();
                    let done = work();
                    let (took, at) = (asked.elapsed(), began.elapsed());
                    let failed = done.is_err();
                    if (RAMP..end).contains(&at) || failed {
                        own.record(done.map(|()| took));
                    }
                    if failed {
                        thread::sleep(PAUSE);
                    }
                }
                let mut all = all
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                all.take_in(own);
            });
        }
    });
    all.into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
fn rated(mut series: Series, rounds: usize) -> Series {
    let seconds = COUNTED.as_secs_f64() * rounds as f64;
    series.rate = Some(Rate {
        per_second: series.count() as f64 / seconds,
        of: "containers",
    });
    series
}
