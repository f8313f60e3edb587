//! One server and the client that asks it, through pipes or over HTTP.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use belljar_test_client::{self as client, PATIENCE, left::instances};

/// Shown by every client over HTTP: what a token keeps, the next server has for the same token.
const TOKEN: &str = "crash-crash-crash-crash-crash-crash";
/// How often is looked whether something is gone.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// How its client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Pipes,
    Http,
}

/// A server and its client.
pub(crate) struct Server {
    pub(crate) client: client::Server,
    /// What it calls itself in names of containers.
    pub(crate) instance: String,
}

impl Server {
    /// Starts a server on this state directory and waits until it answers. `known` are the instances before it.
    pub(crate) fn start(way: Way, state: &Path, folder: &Path, known: &BTreeSet<String>) -> Self {
        let mut command = command(state);
        let client = match way {
            Way::Pipes => client::Server::on_pipes(
                command
                    .args(["serve", "--allow-dir-rw"])
                    .arg(folder)
                    .stderr(Stdio::null()),
            ),
            Way::Http => client::Server::over_http(&mut command, TOKEN),
        };
        let all = instances(state);
        let new: Vec<_> = all.difference(known).cloned().collect();
        assert_eq!(new.len(), 1, "{new:?}");
        let instance = new.into_iter().next().unwrap();
        Self { client, instance }
    }

    /// Stops it in good order.
    pub(crate) fn stop(mut self) {
        assert_eq!(self.client.close(), Some(0));
    }
}

/// Waits until nothing of this kind is left.
pub(crate) fn until_none<T: std::fmt::Debug>(what: &str, left: impl Fn() -> BTreeSet<T>) {
    let end = Instant::now() + PATIENCE;
    loop {
        let still = left();
        if still.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "left for good: {what}: {still:?}");
        thread::sleep(LOOK);
    }
}

/// A command of belljar's about this state directory.
pub(crate) fn command(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command
        .env("BELLJAR_STATE_DIR", state)
        .env("BELLJAR_CONFIG", super::world::config(state));
    command
}
