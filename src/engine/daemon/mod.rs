//! The seam: the few calls of a Docker daemon that the engine needs, in plain types of our own.
//!
//! Whatever implements [`Daemon`] puts a deadline on every call and never retries one that changes
//! something: the engine decides that. Texts that a daemon sends are bounded by [`quoted`] before they
//! reach an error.

mod model;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};

pub use model::{
    Access, ContainerSpec, Created, HostSpec, Image, Info, Inspected, Listed, Locality, Mounted,
    OomFlag, Phase, Place, Resources, Seeding, State, Stdio, Version, Volume, VolumeMount,
};

use crate::types::visible;

/// Characters of a daemon's own words in an error. Stops a daemon, or an image whose labels and names
/// it quotes, from filling a reader's context.
pub const MAX_QUOTE_CHARS: usize = 400;

/// Bytes kept of a container's standard error. It carries only what the guest says before it dies;
/// stops a hostile image's entry from growing the server.
pub const MAX_LOG_BYTES: usize = 4096;

/// Shortens and escapes what the daemon said, so that it may stand in an error.
#[must_use]
pub fn quoted(text: &str) -> String {
    let text = text.trim();
    // Never more is looked at than could be shown.
    let most = text.char_indices().nth(MAX_QUOTE_CHARS + 1);
    let text = most.map_or(text, |(cut, _)| &text[..cut]);
    let shown = visible::escape_name(text.as_bytes());
    match shown.char_indices().nth(MAX_QUOTE_CHARS) {
        None => shown,
        Some((cut, _)) => format!("{}…", &shown[..cut]),
    }
}

/// How systems word that a process has as many files open as it may.
const TOO_MANY_FILES: &str = "oo many open files";

/// What to do about a daemon that does not answer, a sentence's part; `None` where the reason `why` says it already.
#[must_use]
pub fn advice(why: &str) -> Option<&'static str> {
    if why.contains("permission denied") || why.contains("is not supported") {
        None
    } else if why.contains(TOO_MANY_FILES) {
        Some(
            "belljar has as many files open as it may: let fewer calls run at a time, or raise the limit (`ulimit -n`) of \
             what starts it",
        )
    } else {
        Some(
            "start Docker (Docker Desktop, or `sudo systemctl start docker`), or name another daemon in DOCKER_HOST or in \
             docker.host of the configuration",
        )
    }
}

/// Why a call to the daemon failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DaemonError {
    /// Nothing answers, or not with Docker's API.
    #[error(
        "no Docker daemon answers at {endpoint}: {why}; {}check with `belljar doctor`",
        advice(why).map(|advice| format!("{advice}; ")).unwrap_or_default()
    )]
    Unreachable {
        /// Where it was looked for.
        endpoint: String,
        /// What went wrong.
        why: String,
    },
    /// The daemon did not answer in time.
    #[error(
        "the Docker daemon did not answer `{call}` within {seconds} s; it may be overloaded: check it with `docker info`"
    )]
    Timeout {
        /// The call.
        call: &'static str,
        /// Its deadline in seconds.
        seconds: u64,
    },
    /// What the call names does not exist.
    #[error("the Docker daemon knows no such object (`{call}`): {why}")]
    NotFound {
        /// The call.
        call: &'static str,
        /// The daemon's words.
        why: String,
    },
    /// The state of things forbids the call: a name is taken, a volume in use.
    #[error("the Docker daemon reports a conflict (`{call}`): {why}")]
    Conflict {
        /// The call.
        call: &'static str,
        /// The daemon's words.
        why: String,
    },
    /// The daemon refused or failed.
    #[error("the Docker daemon failed `{call}`: {why}")]
    Failed {
        /// The call.
        call: &'static str,
        /// The daemon's words.
        why: String,
    },
}

/// The two ends of a container's attached streams.
pub struct Attached {
    /// What the container writes to standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it wrote to standard error.
    pub log: Log,
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").finish_non_exhaustive()
    }
}

/// The first [`MAX_LOG_BYTES`] of a container's standard error: hostile data.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what still fits.
    pub fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_LOG_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// What was kept, shortened and escaped.
    #[must_use]
    pub fn quoted(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quoted(&String::from_utf8_lossy(&kept))
    }
}

/// The calls of a Docker daemon that the engine makes.
///
/// Containers are named by the daemon's id or by their name.
#[async_trait]
pub trait Daemon: Send + Sync + 'static {
    /// Where it is, and why there.
    fn place(&self) -> Place;

    /// Versions of the daemon and its parts.
    async fn version(&self) -> Result<Version, DaemonError>;

    /// What the daemon says about its machine.
    async fn info(&self) -> Result<Info, DaemonError>;

    /// Looks an image up by reference or id. Never pulls.
    async fn image(&self, reference: &str) -> Result<Option<Image>, DaemonError>;

    /// Makes an image of a tar of its whole root file system, under `repository:tag`.
    async fn import_image(
        &self,
        repository: &str,
        tag: &str,
        root: Bytes,
    ) -> Result<(), DaemonError>;

    /// Removes an image; one that is not there is no error.
    async fn remove_image(&self, reference: &str) -> Result<(), DaemonError>;

    /// Something for every change of an image on the daemon: a tag that moved, an image that went. Ends with an error
    /// when the connection does.
    async fn image_changes(
        &self,
    ) -> Result<BoxStream<'static, Result<(), DaemonError>>, DaemonError>;

    /// Makes a container, which does not run yet.
    async fn create(&self, name: &str, spec: &ContainerSpec) -> Result<Created, DaemonError>;

    /// Reads a container back; `None` when there is none.
    async fn inspect(&self, container: &str) -> Result<Option<Inspected>, DaemonError>;

    /// Opens the container's standard streams, before or after its start.
    async fn attach(&self, container: &str) -> Result<Attached, DaemonError>;

    /// Starts a container.
    async fn start(&self, container: &str) -> Result<(), DaemonError>;

    /// Gives a running container other resources.
    async fn update(&self, container: &str, resources: &Resources) -> Result<(), DaemonError>;

    /// Waits until the container no longer runs, at most `limit`; says how it is then.
    async fn wait(&self, container: &str, limit: std::time::Duration)
    -> Result<State, DaemonError>;

    /// Sends SIGKILL; a container that is gone or does not run is no error.
    async fn kill(&self, container: &str) -> Result<(), DaemonError>;

    /// Removes a container with its anonymous volumes, running or not; one that is gone is no error.
    async fn remove(&self, container: &str) -> Result<(), DaemonError>;

    /// All containers, in whatever state, that carry all these labels (`name=value`).
    async fn list(&self, labels: &[String]) -> Result<Vec<Listed>, DaemonError>;

    /// Looks a volume up.
    async fn volume(&self, name: &str) -> Result<Option<Volume>, DaemonError>;

    /// All volumes that carry this label (`name=value`).
    async fn volumes(&self, label: &str) -> Result<Vec<Volume>, DaemonError>;

    /// Makes a volume; where one of that name exists already, says how that one is.
    async fn create_volume(&self, volume: &Volume) -> Result<Volume, DaemonError>;

    /// Removes a volume; one that is gone is no error.
    async fn remove_volume(&self, name: &str) -> Result<(), DaemonError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_quoted_in_bounds_and_without_control_characters() {
        let said = quoted(&format!("bad\u{1b}[31m{}", "x".repeat(10_000)));
        assert!(said.chars().count() <= MAX_QUOTE_CHARS + 1);
        assert!(!said.contains('\u{1b}'));
    }

    #[test]
    fn a_log_keeps_its_beginning_only() {
        let log = Log::default();
        log.push(b"first ");
        log.push(&[b'x'; 2 * MAX_LOG_BYTES]);
        log.push(b"last");
        assert!(log.quoted().starts_with("first "));
        assert!(!log.quoted().contains("last"));
        assert_eq!(log.0.lock().unwrap().len(), MAX_LOG_BYTES);
    }
}
