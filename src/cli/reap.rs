//! `belljar reap`: removes what servers of this installation left behind.

use std::process::ExitCode;

use super::app;
use crate::config::{Environment, Settings};

/// What `belljar reap` takes: nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Removes the containers of servers that have ended; those of running ones are left alone.
pub(super) fn run(
    _args: &Args,
    settings: &Settings,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let engine = app::engine(settings, environment)?;
    let reaped = super::runtime()?.block_on(async {
        let reaped = engine.reap().await;
        engine.close().await;
        reaped
    })?;
    eprintln!(
        "removed {} containers of {} ended servers; {} could not be removed",
        reaped.containers, reaped.instances, reaped.failed
    );
    Ok(if reaped.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
