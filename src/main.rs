//! The command line's entry: parses the arguments, runs the command, turns its outcome into an exit status.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = belljar::cli::Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("belljar: {error:#}");
            ExitCode::FAILURE
        }
    }
}
