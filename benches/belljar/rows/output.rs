//! A gibibyte that a program prints, side by side with a bare read of the attach stream.

use std::time::{Duration, Instant};

use anyhow::ensure;
use bollard::models::ContainerCreateBody;
use serde_json::json;

use crate::{
    api::Api,
    client::Server,
    context::{Context, Runtime},
    machine,
    program::BASH,
    quiet::settle,
    report::{Reach, Report, Shown},
    stats::Series,
};

/// What is printed.
const BYTES: u64 = 1024 * 1024 * 1024;
/// The same in megabytes.
const MEGABYTES: f64 = 1_073.741_824;
/// The program.
const PRINT: &str = "head -c 1073741824 /dev/zero";
/// The same once a line has come, so that no start is part of the time.
const PRINT_WHEN_TOLD: &str = "read -r _; exec head -c 1073741824 /dev/zero";
/// More than is printed, in KiB, as default and as ceiling.
const CONFIG: &str = "[limits]\noutput_kib = 1100000\n[limits.ceiling]\noutput_kib = 1100000\n";
/// Longer than it takes on a busy machine.
const TIMEOUT_SECONDS: u32 = 150;
/// The least of the raw rate.
const LEAST: f64 = 0.4;
/// The most that the server may have resident, in MiB.
const MOST_MIB: f64 = 64.0;

pub(super) fn gibibyte(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let body =
        context
            .blueprint(&BASH, Runtime::Default)?
            .create(&["bash", "-c", PRINT_WHEN_TOLD])?;
    let server = Server::start(CONFIG, &[])?;
    let session = server.open_session(BASH.name)?;
    let mut ours = Series::new("belljar: `run_code` in a session").with_work(MEGABYTES, "MB");
    let mut raw = Series::new("attach stream, read by hand").with_work(MEGABYTES, "MB");
    for _ in 0..rounds {
        settle();
        ours.record(through(&server, &session));
        settle();
        raw.record(by_hand(&context.api, body.clone()));
    }
    let peak = machine::peak_mib(server.pid())?;
    server.stop()?;

    let mut report = Report::new(format!(
        "`{PRINT}` over MCP in a session, from the call to its answer, in which time all of it is counted, hashed and kept \
         as an artifact; and the same program in a running container of the same hardening, from the word to begin to \
         the end of the stream, read from the daemon's socket into one buffer and thrown away.",
    ));
    report.claim(
        "throughput to the raw attach stream's",
        raw.p50()? / ours.p50()?,
        Shown::Times,
        Reach::AtLeast(LEAST),
    );
    report.claim(
        "peak memory of the server",
        peak,
        Shown::Mib,
        Reach::AtMost(MOST_MIB),
    );
    report.remaining(
        "every piece passes the guest and two copies of the multiplexer's frames, is hashed once and \
         written to the disk's cache once; the reader by hand does none of it, and on a machine with few processors all of \
         these share them with the daemon.",
    );
    report.series = vec![ours, raw];
    Ok(report)
}

fn through(server: &Server, session: &str) -> anyhow::Result<Duration> {
    let ask = json!({
        "language": BASH.name, "session": session, "code": PRINT, "timeout_seconds": TIMEOUT_SECONDS,
    });
    let began = Instant::now();
    let result = server.call("run_code", &ask)?;
    let took = began.elapsed();
    let (status, bytes) = (&result["status"], &result["stdout"]["bytes"]);
    ensure!(
        status == "exited" && *bytes == BYTES,
        "the run ended as {status} with {bytes} bytes"
    );
    Ok(took)
}

fn by_hand(api: &Api, body: ContainerCreateBody) -> anyhow::Result<Duration> {
    let made = api.create(body)?;
    let mut attached = made.attach()?;
    made.start()?;
    settle();
    let began = Instant::now();
    attached.write(b"\n")?;
    let count = attached.drain()?;
    let took = began.elapsed();
    ensure!(count == BYTES, "the stream had {count} bytes");
    Ok(took)
}
