//! The command line: for people who set the server up, look after it, and try it.
//!
//! Parses arguments and hands over; each command is one file. Only what a command is asked to print goes to
//! standard output; progress, logs and errors go to standard error.

mod app;
mod audit;
mod config;
mod doctor;
mod images;
mod progress;
mod reap;
mod run;
mod serve;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use audit::AuditExit;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::config::{Environment, Settings};

/// What is logged unless `BELLJAR_LOG` says otherwise. rmcp logs whole messages, which hold code and output.
const DEFAULT_LOG: &str = "info,rmcp=warn";
/// The same for commands that tell a refusal themselves: nobody should have to read it twice.
const DEFAULT_LOG_OF_ONE_RUN: &str = "info,rmcp=warn,belljar::broker::refusal=error";

/// Gives AI agents a computer that cannot hurt anyone: an MCP server that runs code in hardened containers.
#[derive(Debug, Parser)]
#[command(name = "belljar", version, propagate_version = true)]
pub struct Cli {
    /// Configuration file. Default: `$BELLJAR_CONFIG`, else belljar.toml in the user's configuration folder.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve MCP to a client.
    Serve(serve::Args),
    /// Check everything that sandboxes need, and say how to mend what is missing.
    Doctor(doctor::Args),
    /// Build, list and remove the images that code runs in.
    Images(images::ImagesArgs),
    /// Run a program in a sandbox, the same way as the tool `run_code`.
    Run(run::Args),
    /// Check or show the configuration.
    Config(config::ConfigArgs),
    /// Read the audit log.
    Audit(audit::AuditArgs),
    /// Remove every container that servers of this installation left behind.
    Reap(reap::Args),
}

impl Command {
    fn default_log(&self) -> &'static str {
        match self {
            Self::Run(_) | Self::Doctor(_) => DEFAULT_LOG_OF_ONE_RUN,
            Self::Serve(_) | Self::Images(_) | Self::Config(_) | Self::Audit(_) | Self::Reap(_) => {
                DEFAULT_LOG
            }
        }
    }
}

impl Cli {
    /// The exit status where [`Self::run`] fails. That of `belljar run` must not be one that a program would have.
    #[must_use]
    pub fn failure(&self) -> ExitCode {
        match &self.command {
            Some(Command::Run(_)) => ExitCode::from(run::EXIT_FAILED),
            Some(_) | None => ExitCode::FAILURE,
        }
    }

    /// Runs the command and gives the exit status.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let environment = Environment::gather();
        let Some(command) = self.command.or_else(default_command) else {
            Self::command().write_long_help(&mut io::stdout())?;
            return Ok(ExitCode::SUCCESS);
        };
        log(environment.log.as_deref().unwrap_or(command.default_log()));
        let settings = || Settings::load(&environment, self.config.as_deref());
        match command {
            Command::Serve(args) => serve::run(args, settings()?, &environment),
            Command::Doctor(args) => doctor::run(&args, settings(), &environment),
            Command::Images(args) => {
                let docker = app::docker(&settings()?, &environment);
                runtime()?.block_on(async {
                    let builder = docker.images().await?;
                    anyhow::Ok(images::run(args, &builder, &mut io::stdout()).await?)
                })?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Run(args) => run::run(args, &settings()?, &environment),
            Command::Config(args) => {
                config::run(
                    &args,
                    &environment,
                    self.config.as_deref(),
                    &mut io::stdout().lock(),
                )?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Audit(args) => {
                let state = environment.state_dir()?;
                let shown =
                    runtime()?.block_on(audit::run(&args, &state, &mut io::stdout().lock()))?;
                Ok(match shown {
                    AuditExit::Fine => ExitCode::SUCCESS,
                    AuditExit::Failed => ExitCode::FAILURE,
                })
            }
            Command::Reap(args) => reap::run(&args, &settings()?, &environment),
        }
    }
}

/// Without a command, a client that holds the other end of standard input wants a server; a person wants help.
fn default_command() -> Option<Command> {
    (!io::stdin().is_terminal()).then(|| Command::Serve(serve::Args::default()))
}

fn log(filter: &str) {
    let filter = tracing_subscriber::EnvFilter::builder().parse_lossy(filter);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
}

/// A runtime for one command.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context(
            "cannot start: the limit of open files (`ulimit -n`) or of processes (`ulimit -u`) may be too low",
        )
}
