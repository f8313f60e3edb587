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
pub(super) struct ConfigArgs {
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
pub(super) fn run(
    args: &ConfigArgs,
    environment: &Environment,
    flag: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match &args.command {
        ConfigCommand::Check { file } => {
            let settings = Settings::load(environment, file.as_deref().or(flag))?;
            super::app::allowed_folders(&settings)?;
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ConfigArgs,
    }

    fn say(words: &[&str]) -> Result<String, String> {
        let line = Line::parse_from([&["config"], words].concat());
        let mut out = Vec::new();
        run(&line.args, &Environment::default(), None, &mut out)
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn check_says_ok_or_what_is_wrong() {
        assert_eq!(
            say(&["check"]).unwrap(),
            "ok: there is no file, and the built-in defaults hold\n"
        );
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/belljar.toml");
        assert_eq!(
            say(&["check", example]).unwrap(),
            format!("ok: {example}\n")
        );
        let bad = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/config/bad/ttl_zero.toml"
        );
        assert_eq!(
            say(&["check", bad]).unwrap_err(),
            format!("{bad}: sessions.ttl_seconds is 0: it must lie between 1 and 2592000")
        );
    }

    #[test]
    fn show_prints_settings_and_schema_describes_them() {
        let shown = say(&["show"]).unwrap();
        assert!(shown.starts_with("# built-in defaults\n"), "{shown}");
        let schema: serde_json::Value = serde_json::from_str(&say(&["schema"]).unwrap()).unwrap();
        let settings: toml::Table = toml::from_str(&shown).unwrap();
        let described = schema["properties"].as_object().unwrap();
        for key in settings.keys() {
            assert!(described.contains_key(key), "{key}");
        }
        assert_eq!(schema["additionalProperties"], false);
    }
}
