//! Why a sandbox could not be had. Every text says what to do where something can be done.

use super::{daemon::DaemonError, instance::InstanceError, tether::TetherError};

/// Why the engine could not do what was asked. The texts are for the caller's model and for people; what
/// they quote of a daemon or an image is bounded and escaped.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The daemon could not be reached or failed.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// No image of that reference on the daemon; it is never pulled.
    #[error(
        "the image {reference} is not on the Docker daemon; {}",
        mend_image(reference)
    )]
    ImageMissing {
        /// The reference, from the configuration.
        reference: String,
    },
    /// The image asks for something that no sandbox gets.
    #[error("the image {reference} cannot be used: {why}")]
    ImageRefused {
        /// The reference, from the configuration.
        reference: String,
        /// What it asks for, and what to do.
        why: String,
    },
    /// The daemon could not apply a limit. It says so only in a warning; without the limit there is no sandbox.
    #[error("the Docker daemon cannot make the sandbox as asked: {warning}; see `belljar doctor`")]
    Warning {
        /// The daemon's words.
        warning: String,
    },
    /// The container is not what was asked for.
    #[error(
        "the Docker daemon made a container that differs from what was asked in {field}: \
         asked {asked}, found {found}; it was removed and nothing ran"
    )]
    Mismatch {
        /// The field.
        field: &'static str,
        /// What was asked, bounded.
        asked: String,
        /// What was found, bounded.
        found: String,
    },
    /// The configured runtime is not there; a weaker one is never taken instead.
    #[error(
        "the Docker daemon has no runtime {runtime:?}, only {available}; install it or change `runtime` in the configuration"
    )]
    RuntimeMissing {
        /// As configured.
        runtime: String,
        /// Those there are.
        available: String,
    },
    /// The daemon does not run Linux containers on a processor that the guest is built for.
    #[error(
        "the Docker daemon runs {os}/{architecture} containers; belljar needs linux on x86_64 or aarch64"
    )]
    Platform {
        /// As the daemon says it.
        os: String,
        /// As the daemon says it.
        architecture: String,
    },
    /// It is Podman that answers. Its Docker-compatible API (4.3.1) takes no seccomp profile in a request and no bound on the
    /// number of files of a tmpfs, adds writable folders of its own, and gives itself a new id with every call.
    #[error(
        "Podman {version} answers instead of Docker, and its Docker-compatible API cannot make a sandbox as belljar needs it; \
         use Docker Engine (rootless, if no daemon may run as root) and name it in DOCKER_HOST or `[docker] host`"
    )]
    Podman {
        /// As it says it.
        version: String,
    },
    /// The volume with the guest could not be made.
    #[error("the volume with belljar's guest could not be made: {why}")]
    GuestVolume {
        /// What went wrong.
        why: String,
    },
    /// The container did not start. The reason is for the log alone: a runtime quotes paths of the host in it, and
    /// links that an image made.
    #[error(
        "the sandbox did not start; belljar's log on standard error has the daemon's reason, and `belljar doctor` looks for its cause"
    )]
    Start {
        /// The daemon's words.
        why: String,
    },
    /// Every uid of the sandboxes' range is in use on this daemon.
    #[error(
        "all {count} sandbox uids are in use on this Docker daemon; close sessions, or run `belljar reap`"
    )]
    UidsExhausted {
        /// How many there are.
        count: usize,
    },
    /// A part of the server itself failed in the middle of a launch; what it had made is removed.
    #[error("belljar failed while it started a sandbox; this is a fault in belljar, see its log")]
    Fault,
    /// The engine is closing.
    #[error("belljar is shutting down and starts no sandbox any more")]
    Closed,
    /// The guest did not answer as it should.
    #[error("the sandbox's guest failed: {0}")]
    Tether(#[from] TetherError),
    /// The instance's lock file could not be made or read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

impl EngineError {
    /// Whether it may come of another daemon than the one whose host and volume are known.
    pub(super) fn may_be_another_daemon(&self) -> bool {
        match self {
            Self::Daemon(_)
            | Self::Warning { .. }
            | Self::Mismatch { .. }
            | Self::RuntimeMissing { .. }
            | Self::Platform { .. }
            | Self::Podman { .. }
            | Self::GuestVolume { .. }
            | Self::Start { .. }
            | Self::Tether(_) => true,
            // What other launches know of it need not be looked up again for these.
            Self::ImageMissing { .. }
            | Self::ImageRefused { .. }
            | Self::UidsExhausted { .. }
            | Self::Fault
            | Self::Closed
            | Self::Instance(_) => false,
        }
    }

    /// The constant name of the reason, for the audit log and for tests.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Daemon(_) => "daemon",
            Self::ImageMissing { .. } => "image_missing",
            Self::ImageRefused { .. } => "image_refused",
            Self::Warning { .. } => "create_warning",
            Self::Mismatch { .. } => "container_mismatch",
            Self::RuntimeMissing { .. } => "runtime_missing",
            Self::Platform { .. } => "platform",
            Self::Podman { .. } => "podman",
            Self::GuestVolume { .. } => "guest_volume",
            Self::Start { .. } => "not_started",
            Self::UidsExhausted { .. } => "uids_exhausted",
            Self::Closed => "closing",
            Self::Fault => "internal",
            Self::Tether(_) => "guest",
            Self::Instance(_) => "instance",
        }
    }
}

/// The command that brings an image onto the daemon.
fn mend_image(reference: &str) -> String {
    match reference.strip_prefix("belljar/") {
        Some(rest) => {
            let name = rest.split(':').next().unwrap_or(rest);
            format!("build it with `belljar images build {name}`")
        }
        None => format!("fetch it with `docker pull {reference}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_image_carries_the_command_that_mends_it() {
        let text = |reference: &str| {
            EngineError::ImageMissing {
                reference: reference.to_owned(),
            }
            .to_string()
        };
        assert!(text("belljar/python:latest").contains("`belljar images build python`"));
        assert!(text("python:3.13-alpine").contains("`docker pull python:3.13-alpine`"));
    }
}
