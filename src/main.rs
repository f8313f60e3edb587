//! The command line's entry: parses the arguments, runs the command, turns its outcome into an exit status.

use std::{io, process::ExitCode};

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = belljar::cli::Cli::parse();
    let failure = cli.failure();
    match cli.run() {
        Ok(code) => code,
        // Whoever reads only the first lines of a list has what they wanted.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("belljar: {error:#}");
            failure
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
