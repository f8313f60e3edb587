//! `belljar doctor`: looks at everything that sandboxes need and says how to mend what is missing.
//!
//! Changes nothing but what a run changes: its last check is a run. The exit status is 1 where a check fails.

mod check;
mod network;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use tokio_util::sync::CancellationToken;

use super::app::{self, App};
use crate::{
    config::{ConfigError, Environment, Settings, machine_cpus},
    egress::Packages,
    engine::{
        EngineError, Facts,
        daemon::{self, DaemonError},
    },
    images,
    policy::RunAsk,
    types::{Caller, PackageKind, Status},
};
use check::{Check, Level};

/// What `belljar doctor` takes: nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Prints each check as it is made.
pub(super) fn run(
    _args: &Args,
    settings: Result<Settings, ConfigError>,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let runtime = super::runtime()?;
    let (settings, configured) = match settings {
        Ok(settings) => {
            let configured = configuration(&settings);
            (settings, configured)
        }
        // The rest is looked at all the same: it may be what is wrong besides.
        Err(error) => (Settings::defaults(machine_cpus())?, misconfigured(&error)),
    };
    let mut out = io::stdout();
    let worst = runtime.block_on(look(&settings, &configured, environment, &mut out))?;
    Ok(match worst {
        Level::Ok | Level::Warning => ExitCode::SUCCESS,
        Level::Failure => ExitCode::FAILURE,
    })
}

async fn look(
    settings: &Settings,
    configured: &Check,
    environment: &Environment,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Level> {
    let mut report = Report {
        out,
        worst: Level::Ok,
    };
    report.add(configured)?;
    let state = state(environment);
    report.add(&state)?;
    if state.level == Level::Failure {
        // Everything else needs it.
        return Ok(report.worst);
    }
    report.add(&accounts())?;
    for check in network::checks(&settings.egress).await {
        report.add(&check)?;
    }
    for check in packages(settings, environment).await {
        report.add(&check)?;
    }
    let engine = match app::engine(settings, environment) {
        Ok(engine) => engine,
        Err(error) => {
            // A directory that is there and that nothing can be written to.
            report.add(&unwritable(&error))?;
            return Ok(report.worst);
        }
    };
    let own: Vec<String> = settings
        .languages
        .configured()
        .iter()
        .map(|image| image.tag.clone())
        .collect();
    let facts = engine.facts(&own).await;
    engine.close().await;
    match facts {
        Ok(facts) => {
            for check in check::daemon(&facts) {
                report.add(&check)?;
            }
            for check in built_in(settings, environment).await {
                report.add(&check)?;
            }
            for check in own_images(&facts) {
                report.add(&check)?;
            }
        }
        Err(error) => report.add(&without_daemon(&error))?,
    }
    if report.worst < Level::Failure {
        report.add(&trial(settings, environment).await)?;
    }
    Ok(report.worst)
}

/// What is told of a daemon that cannot be asked. The error's own words send their reader to the doctor, who is there.
fn without_daemon(error: &EngineError) -> Check {
    let again = "when it answers, run `belljar doctor` again";
    match error {
        EngineError::Daemon(DaemonError::Unreachable { endpoint, why }) => Check::failure(
            "daemon",
            format!("no Docker daemon answers at {endpoint}: {why}"),
            daemon::advice(why)
                .map_or_else(|| again.to_owned(), |advice| format!("{advice}; {again}")),
        ),
        other => Check::failure("daemon", other.to_string(), again),
    }
}

struct Report<'a> {
    out: &'a mut (dyn Write + Send),
    worst: Level,
}

impl Report<'_> {
    fn add(&mut self, check: &Check) -> io::Result<()> {
        self.worst = self.worst.max(check.level);
        writeln!(self.out, "{check}")
    }
}

fn configuration(settings: &Settings) -> Check {
    let from = settings.origin.path().map_or_else(
        || "built-in defaults".to_owned(),
        |path| format!("{} ({})", path.display(), settings.origin),
    );
    Check::ok("configuration", from)
}

/// No server starts with it; what follows is said of the built-in defaults.
fn misconfigured(error: &ConfigError) -> Check {
    Check::failure(
        "configuration",
        error.to_string(),
        "mend the file; until then the checks below are of the built-in defaults",
    )
}

fn unwritable(error: &anyhow::Error) -> Check {
    Check::failure(
        "disk",
        format!("{error:#}"),
        "when it can be written to, run `belljar doctor` again: the daemon was not looked at",
    )
}

fn state(environment: &Environment) -> Check {
    let directory = match environment.state_dir() {
        Ok(directory) => directory,
        Err(error) => {
            return Check::failure(
                "disk",
                error.to_string(),
                "set BELLJAR_STATE_DIR to an absolute path",
            );
        }
    };
    if let Err(error) = std::fs::create_dir_all(&directory) {
        return Check::failure(
            "disk",
            format!("{}: {error}", directory.display()),
            "make the state directory writable, or set BELLJAR_STATE_DIR to one that is",
        );
    }
    check::disk(&directory.display().to_string(), free_bytes(&directory))
}

#[cfg(unix)]
fn free_bytes(directory: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_directory: &Path) -> Option<u64> {
    None
}

fn accounts() -> Check {
    check::accounts(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
}

/// Where packages would come from. Nobody there is asked anything.
async fn packages(settings: &Settings, environment: &Environment) -> Vec<Check> {
    let name = "packages";
    let Ok(state) = environment.state_dir() else {
        return Vec::new();
    };
    let packages = Packages::new(&settings.packages, state.join("packages"));
    let mut checks = Vec::new();
    for kind in [PackageKind::Python, PackageKind::JavaScript] {
        checks.extend(match packages.registry(kind).await {
            Ok(None) => None,
            Ok(Some(registry)) => Some(Check::ok(
                name,
                format!("{kind} packages come from {}", registry.url()),
            )),
            Err(error) => Some(Check::warning(
                name,
                error.to_string(),
                "without it each call that asks for packages fails",
            )),
        });
    }
    if checks.is_empty() {
        checks.push(Check::ok(name, "off: no call can ask for any"));
    }
    checks
}

async fn built_in(settings: &Settings, environment: &Environment) -> Vec<Check> {
    let failed = |error: String| vec![Check::failure("image", error, "belljar images list")];
    let wanted: Vec<String> = settings
        .languages
        .built_in()
        .iter()
        .map(|image| image.name.clone())
        .collect();
    let chosen = match images::catalogue().map(|all| images::select(all, &wanted)) {
        Ok(Ok(chosen)) => chosen,
        Ok(Err(error)) => return failed(error.to_string()),
        Err(error) => return failed(error.to_string()),
    };
    let builder = match app::docker(settings, environment).images().await {
        Ok(builder) => builder,
        Err(error) => return failed(error.to_string()),
    };
    match images::list(&builder, &chosen).await {
        Ok(found) => chosen
            .iter()
            .zip(&found)
            .map(|(image, present)| {
                check::built_in_image(&image.image.tag, &image.image.name, present)
            })
            .collect(),
        Err(error) => failed(error.to_string()),
    }
}

fn own_images(facts: &Facts) -> impl Iterator<Item = Check> {
    facts
        .images
        .iter()
        .map(|image| check::own_image(&image.reference, image.found.is_some()))
}

/// The proof of the rest: one program in one sandbox, by the same path as a client's.
async fn trial(settings: &Settings, environment: &Environment) -> Check {
    let name = "trial run";
    let failed = |why: String| {
        Check::failure(
            name,
            why,
            "the lines above may say why; BELLJAR_LOG=debug shows more",
        )
    };
    let Some(language) = settings
        .languages
        .images()
        .first()
        .and_then(|image| image.languages.first())
    else {
        return Check::failure(
            name,
            "no language is configured",
            "see examples/belljar.toml",
        );
    };
    let app = match App::for_one_run(settings, environment) {
        Ok(app) => app,
        Err(error) => return failed(format!("{error:#}")),
    };
    // An empty line is a program in every language that comes to mind.
    let ask = RunAsk {
        language: language.name.clone(),
        code: "\n".to_owned(),
        ..RunAsk::default()
    };
    let began = std::time::Instant::now();
    let result = app
        .broker()
        .run(&Caller::Local, None, ask, &CancellationToken::new())
        .await;
    let took = began.elapsed().as_millis();
    app.stop().await;
    match result {
        Ok(report) if report.status == Status::Exited && report.exit_code == Some(0) => Check::ok(
            name,
            format!("{} in a fresh sandbox, {took} ms", language.name),
        ),
        Ok(report) => failed(format!(
            "{} ended as {}",
            language.name,
            report.status.name()
        )),
        Err(refusal) => failed(refusal.message().to_owned()),
    }
}
