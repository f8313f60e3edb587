//! A program in a container that is made for it, side by side with the calls of the API that make one.

use std::time::{Duration, Instant};

use bollard::models::ContainerCreateBody;

use crate::{
    api::Api,
    client::Server,
    context::{Context, Runtime},
    program::PRINT,
    quiet::settle,
    report::{Reach, Report},
    stats::Series,
};

/// The most that belljar may add to the calls that anybody needs.
const MOST: f64 = 1.15;

pub(super) fn python(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let blueprint = context.blueprint(PRINT.language, Runtime::Default)?;
    let body = blueprint.create(&PRINT.inline())?;
    let server = Server::start(context.cold(), &[])?;
    server.run(&PRINT, None)?;
    let mut ours = Series::new("belljar: `run_code`, no pool");
    let mut raw = Series::new("API: create, attach, start, until `print(1)` has ended");
    let mut alone = Series::new("API: create, attach, start");
    for _ in 0..rounds {
        settle();
        ours.record_run(server.run(&PRINT, None));
        settle();
        let times = by_hand(&context.api, body.clone());
        match times {
            Ok((started, ended)) => {
                alone.record(Ok(started));
                raw.record(Ok(ended));
            }
            Err(error) => raw.fail(&error),
        }
    }
    server.stop()?;

    let mut report = Report::new(
        "`print(1)` over MCP by a server whose pool is off: the image is looked up, the container made, read back and \
         compared, attached, started, the guest greeted, the program run and its files collected. Beside it the bare calls \
         for a container of the same specification: to the answer of start (what the container then does is not waited \
         for), and to the end of the output of the same program, which the container was made for.",
    );
    report.ratio(
        "p50 to create, attach, start and the same run",
        ours.p50()?,
        raw.p50()?,
        Reach::AtMost(MOST),
    );
    report.ratio(
        "p50 to create, attach and start alone, without any run",
        ours.p50()?,
        alone.p50()?,
        Reach::Told,
    );
    report.series = vec![ours, raw, alone];
    Ok(report)
}

/// When start was answered, and when the program had ended.
fn by_hand(api: &Api, body: ContainerCreateBody) -> anyhow::Result<(Duration, Duration)> {
    let began = Instant::now();
    let made = api.create(body)?;
    let mut attached = made.attach()?;
    made.start()?;
    let started = began.elapsed();
    attached.expect(PRINT.prints)?;
    attached.drain()?;
    Ok((started, began.elapsed()))
}
