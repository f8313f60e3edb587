//! Servers of the tests' own: their settings, and what their records say.

use std::{fs::File, path::Path, process::Command};

pub(crate) use belljar_test_client::{PATIENCE, Server, holds_within as until, said};

use crate::clock::Clock;

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    /// Its state directory.
    pub(crate) state: &'a Path,
    /// Where its configuration and its log go.
    pub(crate) beside: &'a Path,
    /// The socket of its daemon.
    pub(crate) docker: &'a Path,
    /// Its configuration.
    pub(crate) config: &'a str,
    /// How many files it may have open at a time.
    pub(crate) files: Option<u32>,
    /// Another wall clock than the machine's.
    pub(crate) clock: Option<&'a Clock>,
}

/// Starts a server, and greets it.
pub(crate) fn start(setup: Setup<'_>) -> Server {
    let mut command = belljar(setup);
    Server::on_pipes(command.stderr(File::create(setup.beside.join("log")).unwrap()))
}

/// The program with the same settings, for another command or as the server.
pub(crate) fn belljar(setup: Setup<'_>) -> Command {
    let config = setup.beside.join("belljar.toml");
    std::fs::write(&config, setup.config).unwrap();
    let program = env!("CARGO_BIN_EXE_belljar");
    let mut command = match setup.files {
        None => Command::new(program),
        Some(files) => {
            let mut shell = Command::new("sh");
            // Both limits: the server raises the soft one to the hard one.
            let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
            shell.args(["-c", &script, program]);
            shell
        }
    };
    command
        .env("BELLJAR_STATE_DIR", setup.state)
        .env("BELLJAR_CONFIG", config)
        .env("BELLJAR_LOG", "belljar=debug")
        .env("DOCKER_HOST", format!("unix://{}", setup.docker.display()));
    if let Some(clock) = setup.clock {
        clock.lend(&mut command);
    }
    command
}

/// Whether the chain of every log of this state directory holds.
pub(crate) fn verify(setup: Setup<'_>) -> Result<(), String> {
    let done = belljar(setup).args(["audit", "verify"]).output().unwrap();
    if done.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}
