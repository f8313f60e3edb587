//! What the way through an egress profile adds to a request and takes from a download, side by side with the same program
//! on the host's network.

use std::fs;

use anyhow::{Context as _, ensure};
use belljar_test_upstream::{Options, Upstream};
use bollard::models::ContainerCreateBody;
use serde::Deserialize;
use serde_json::json;

use crate::{
    api::Api,
    client::Server,
    context::{Context, Runtime},
    machine,
    program::PYTHON,
    quiet::settle,
    report::{Lacking, Reach, Report, Shown},
    stats::Series,
};

/// What is timed, inside.
const PROGRAM: &str = include_str!("egress.py");
/// The name under which the profiles know the server.
const NAME: &str = "files.lab.test";
/// The size of the download in megabytes.
const MEGABYTES: f64 = 104.857_6;
/// Longer than it takes on a busy machine.
const TIMEOUT_SECONDS: u32 = 120;
/// More than the program prints.
const MAX_PRINTED: usize = 64 * 1024;
/// The most that a tunnel may add to a request, in ms.
const MOST_TUNNEL_MS: f64 = 1.0;
/// The most that interception may add to a request, in ms.
const MOST_INTERCEPTED_MS: f64 = 3.0;
/// The least that a tunnel must carry, in MB/s.
const LEAST_TUNNEL: f64 = 200.0;

/// What the program prints, in ms.
#[derive(Deserialize)]
struct Printed {
    /// Each of the requests on one connection.
    each: Vec<f64>,
    /// Each of those with a connection of its own.
    alone: Vec<f64>,
    /// The download.
    download: f64,
}

/// The three figures of one way.
struct Way {
    each: Series,
    alone: Series,
    download: Series,
}

impl Way {
    fn new(name: &str) -> Self {
        Self {
            each: Series::new(format!("{name}: a request on an open connection")),
            alone: Series::new(format!("{name}: connection, TLS and a request")),
            download: Series::new(format!("{name}: 100 MiB")).with_work(MEGABYTES, "MB"),
        }
    }

    fn record(&mut self, printed: anyhow::Result<Printed>) {
        match printed {
            Ok(printed) => {
                for ms in printed.each {
                    self.each.push(ms);
                }
                for ms in printed.alone {
                    self.alone.push(ms);
                }
                self.download.push(printed.download);
            }
            Err(error) => self.each.fail(&error),
        }
    }

    fn rate(&self) -> anyhow::Result<f64> {
        Ok(MEGABYTES * 1000.0 / self.download.p50()?)
    }
}

pub(super) fn proxied(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    if !machine::configures("egress")? {
        return Err(Lacking("this build of belljar has no egress profiles".to_owned()).into());
    }
    let upstream = context
        .api
        .block_on(Upstream::start(Options::named(&[NAME])));
    let folder = tempfile::tempdir().context("make a folder for the certificate")?;
    let authority = folder.path().join("ca.pem");
    fs::write(&authority, upstream.ca_pem()).context("write the certificate")?;
    let port = upstream.tls().port();
    let profile = |name: &str, tunnel: bool| {
        format!(
            "[egress.{name}]\nallow = [{{ host = \"{NAME}:{port}\", tunnel = {tunnel} }}]\n\
             resolve = {{ \"{NAME}\" = [\"127.0.0.1\"] }}\nallow_private = [\"127.0.0.1/32\"]\n\
             upstream_ca = {:?}\n",
            authority.display().to_string()
        )
    };
    let config = profile("tunnel", true) + &profile("intercepted", false);
    let body = on_the_hosts_network(
        context.blueprint(&PYTHON, Runtime::Default)?.create(&[
            PYTHON.command,
            PYTHON.inline,
            PROGRAM,
        ])?,
        &upstream,
    )?;
    let server = Server::start(&config, &[])?;
    let mut tunnel = Way::new("belljar, passed through");
    let mut intercepted = Way::new("belljar, intercepted");
    let mut direct = Way::new("host's network");
    for _ in 0..rounds {
        settle();
        tunnel.record(through(&server, &upstream, "tunnel"));
        settle();
        intercepted.record(through(&server, &upstream, "intercepted"));
        settle();
        direct.record(straight(&context.api, body.clone()));
    }
    let peak = machine::peak_mib(server.pid())?;
    server.stop()?;
    report(tunnel, intercepted, direct, peak)
}

fn report(tunnel: Way, intercepted: Way, direct: Way, peak: f64) -> anyhow::Result<Report> {
    let mut report = Report::new(
        "One Python program at an HTTPS server on loopback, all of it measured inside: 200 requests on one connection, 20 with \
         a connection and a TLS handshake of their own, a download of 100 MiB. In a sandbox with a profile that passes TLS \
         through, in one whose profile reads every request, and in a container of the same hardening on the host's network, \
         where nothing lies between. What is added is the difference of the same percentiles.",
    );
    for (name, way, reach) in [
        ("passed through", &tunnel, MOST_TUNNEL_MS),
        ("intercepted", &intercepted, MOST_INTERCEPTED_MS),
    ] {
        let added = |percent| -> anyhow::Result<f64> {
            let of = |series: &Series| series.percentile(percent).context("no round went well");
            Ok(of(&way.each)? - of(&direct.each)?)
        };
        // Says why, where no round went well.
        way.each.p50()?;
        for (percent, reach) in [(50, Reach::AtMost(reach)), (99, Reach::Told)] {
            report.claim(
                format!("{name}: added to a request, p{percent}"),
                added(percent)?,
                Shown::Ms,
                reach,
            );
        }
        report.claim(
            format!("{name}: added to connection, TLS and a request, p50"),
            way.alone.p50()? - direct.alone.p50()?,
            Shown::Ms,
            Reach::Told,
        );
    }
    for (name, way, reach) in [
        ("passed through", &tunnel, Reach::AtLeast(LEAST_TUNNEL)),
        ("intercepted", &intercepted, Reach::Told),
        ("host's network", &direct, Reach::Told),
    ] {
        report.claim(
            format!("{name}: download"),
            way.rate()?,
            Shown::MbPerSecond,
            reach,
        );
    }
    report.claim("peak memory of the server", peak, Shown::Mib, Reach::Told);
    report.series = [tunnel, intercepted, direct]
        .into_iter()
        .flat_map(|way| [way.each, way.alone, way.download])
        .collect();
    Ok(report)
}

/// The same container on the network of the daemon's machine.
fn on_the_hosts_network(
    mut body: ContainerCreateBody,
    upstream: &Upstream,
) -> anyhow::Result<ContainerCreateBody> {
    let host = body.host_config.as_mut().context("a host configuration")?;
    host.network_mode = Some("host".to_owned());
    body.hostname = None;
    body.env.get_or_insert_default().extend([
        format!("PORT={}", upstream.tls().port()),
        format!("CA={}", upstream.ca_pem()),
    ]);
    Ok(body)
}

fn straight(api: &Api, body: ContainerCreateBody) -> anyhow::Result<Printed> {
    let made = api.create(body)?;
    let mut attached = made.attach()?;
    made.start()?;
    printed(&attached.text(MAX_PRINTED)?)
}

fn through(server: &Server, upstream: &Upstream, network: &str) -> anyhow::Result<Printed> {
    let ask = json!({
        "language": PYTHON.name, "code": PROGRAM, "network": network, "timeout_seconds": TIMEOUT_SECONDS,
        "env": {"PORT": upstream.tls().port().to_string(), "CA": upstream.ca_pem()},
    });
    let result = server.call("run_code", &ask)?;
    ensure!(
        result["status"] == "exited" && result["exit_code"] == 0,
        "the run ended as {}: {}",
        result["status"],
        result["stderr"]["text"]
    );
    printed(result["stdout"]["text"].as_str().unwrap_or_default())
}

fn printed(text: &str) -> anyhow::Result<Printed> {
    serde_json::from_str(text).with_context(|| format!("the program printed {text:?}"))
}
