//! `belljar config`: look at the configuration without starting anything.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::config::{Environment, FileOrigin, Settings, schema};

/// Check, show or describe the configuration.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ConfigCommand {
    /// Check a configuration file and say what is wrong with it.
    Check {
        /// The file; without it, the one that `belljar serve` would read.
        file: Option<PathBuf>,
    },
    /// Print the effective settings, every key with its value, as TOML.
    Show,
    /// Print the JSON schema of the configuration file, for editors.
    Schema,
}

/// Runs `belljar config`; `flag` is the global `--config`, and `out` receives what is asked for.
pub fn run(
    args: &ConfigArgs,
    environment: &Environment,
    flag: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match &args.command {
        ConfigCommand::Check { file } => {
            let settings = Settings::load(environment, file.as_deref().or(flag))?;
            match settings.origin {
                FileOrigin::BuiltIn => {
                    writeln!(out, "ok: there is no file, and the built-in defaults hold")?;
                }
                FileOrigin::Flag(path) | FileOrigin::Variable(path) | FileOrigin::Default(path) => {
                    writeln!(out, "ok: {}", path.display())?;
                }
            }
        }
        ConfigCommand::Show => {
            let settings = Settings::load(environment, flag)?;
            out.write_all(settings.show()?.as_bytes())?;
        }
        ConfigCommand::Schema => {
            let schema = serde_json::to_string_pretty(&schema())
                .context("cannot write the schema as JSON")?;
            writeln!(out, "{schema}")?;
        }
    }
    Ok(())
}
