//! Why the broker did not do what it was asked, in words that help.

use crate::{
    artifact::{LocalError, StoreError},
    audit::AuditError,
    egress::SecretError,
    engine::{
        EngineError,
        tether::{TetherError, message::GuestError},
    },
    policy::Denial,
    session::SessionError,
};

/// An action that was not done. Its message is belljar's own: nothing in it comes from inside a sandbox, whose guest
/// names its errors by kind and never by text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    kind: Kind,
    reason: &'static str,
    message: String,
}

/// Which of two very different things a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It is not allowed, or makes no sense.
    Denied,
    /// It was allowed and could not be done.
    Failed,
}

impl Refusal {
    /// Something that was allowed and could not be done, with a constant `reason` for the audit log and a message that
    /// says what to do.
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Failed,
            reason,
            message: message.into(),
        }
    }

    /// Something that is not allowed or makes no sense.
    pub(crate) fn denied(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Denied,
            ..Self::new(reason, message)
        }
    }

    /// Arguments that do not parse.
    pub(crate) fn arguments(message: impl Into<String>) -> Self {
        Self::denied("bad_arguments", message)
    }

    /// A fault of belljar's own. The details are in its log, not in front of the model.
    pub(crate) fn internal() -> Self {
        Self::new(
            "internal",
            "the call failed inside belljar; the server goes on. Its log on standard error has the details",
        )
    }

    /// The call was taken back by its client.
    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled", "the call was cancelled")
    }

    /// The server stops.
    pub(crate) fn closing() -> Self {
        Self::new(
            "closing",
            "belljar is shutting down: nothing is started any more",
        )
    }

    /// Nothing of that id, or not this caller's.
    pub(crate) fn unknown_artifact() -> Self {
        Self::denied(
            "unknown_artifact",
            "unknown artifact: use an artifact_id that run_code or fetch_artifact returned",
        )
    }

    /// The session is closed, and the daemon does not say that its container is gone.
    pub(crate) fn not_gone_yet() -> Self {
        Self::new(
            "not_gone_yet",
            "the session is closed and cannot be used any more, but the Docker daemon has not yet said that its container \
             is gone; belljar goes on trying, there is nothing to do",
        )
    }

    /// The session ended under the call.
    pub(crate) fn session_ended() -> Self {
        Self::new(
            "session_ended",
            "the session ended during the call: it was closed, its lease was over, or the server stops",
        )
    }

    /// A file of the user's that could not be moved.
    pub(crate) fn local(error: &std::io::Error) -> Self {
        tracing::warn!(%error, "a file could not be moved between the store and the user's folders");
        Self::new(
            "local_file",
            "the file could not be read or written; belljar's log on standard error has the details",
        )
    }

    /// An upload that cannot be had.
    pub(crate) fn upload(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::new(
                "unknown_upload",
                "unknown file_id: use one that upload_file returned, or upload the file again",
            ),
            StoreError::Expired => Self::new(
                "expired_upload",
                "the upload has expired: upload the file again",
            ),
            other => other.into(),
        }
    }

    /// Whether the caller was told no, rather than that something failed.
    #[must_use]
    pub fn is_denial(&self) -> bool {
        self.kind == Kind::Denied
    }

    /// The constant name of the reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// What happened and what to do, in belljar's own words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The systems' numbers for a process, and a machine, that has as many files open as it may.
const TOO_MANY_FILES: [i32; 2] = if cfg!(windows) { [4, 4] } else { [24, 23] };

/// What it may be that keeps something from being written, and what to do.
fn shortage(error: &(dyn std::error::Error + 'static)) -> &'static str {
    let mut chain = std::iter::successors(Some(error), |link| link.source());
    let too_many_files = chain.any(|link| {
        link.downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error)
            .is_some_and(|number| TOO_MANY_FILES.contains(&number))
    });
    if too_many_files {
        "belljar has too many open files: let fewer calls run at a time, or raise the limit (`ulimit -n`) of what starts it"
    } else {
        "is the disk of the state directory full? `belljar doctor` looks"
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self::denied(denial.reason(), denial.to_string())
    }
}

impl From<SecretError> for Refusal {
    fn from(error: SecretError) -> Self {
        tracing::warn!(%error, "no secret");
        Self::new("secret", error.to_string())
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        Self::denied(error.reason(), error.to_string())
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        tracing::warn!(%error, "no sandbox");
        Self::new(error.reason(), error.to_string())
    }
}

impl From<GuestError> for Refusal {
    fn from(error: GuestError) -> Self {
        let advice = match error {
            GuestError::NoSpace => ": make room, or ask for a larger `limits.workspace_mib`",
            GuestError::NotFound => ": list_files shows what there is",
            GuestError::NotRegular => ": links, folders and devices are never followed or read",
            // ENOENT
            GuestError::Spawn { errno: 2 } => ": it is not in the PATH of the image or of `env`",
            GuestError::Busy => ": call again when it has ended",
            GuestError::NotDirectory
            | GuestError::OutsideWorkspace
            | GuestError::PathTooLong
            | GuestError::Exists
            | GuestError::Denied
            | GuestError::Malformed
            | GuestError::Spawn { .. }
            | GuestError::Namespace { .. }
            | GuestError::Io { .. } => "",
        };
        Self::new("workspace", format!("{error}{advice}"))
    }
}

impl From<TetherError> for Refusal {
    fn from(error: TetherError) -> Self {
        match error {
            TetherError::Guest(error) => error.into(),
            TetherError::HelloTimeout | TetherError::Lost | TetherError::Violation(_) => Self::new(
                "sandbox_lost",
                format!(
                    "{error}, and the sandbox with it: a fresh run, or a new session, may succeed"
                ),
            ),
            TetherError::TooLarge | TetherError::TooManyRequests | TetherError::Source(_) => {
                Self::new("sandbox", error.to_string())
            }
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::unknown_artifact(),
            StoreError::Expired => Self::denied("expired", format!("the artifact has {error}")),
            StoreError::TooLarge { .. } => {
                Self::denied("too_large", format!("the file has {error}"))
            }
            StoreError::Damaged
            | StoreError::Locked
            | StoreError::Io { .. }
            | StoreError::Stopping
            | StoreError::Panicked => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the artifact store failed"
                );
                Self::new("store", format!("{error}: {}", shortage(&error)))
            }
        }
    }
}

impl From<LocalError> for Refusal {
    fn from(error: LocalError) -> Self {
        Self::denied("local_file", error.to_string())
    }
}

impl From<AuditError> for Refusal {
    fn from(error: AuditError) -> Self {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the audit log failed"
        );
        let shortage = shortage(&error);
        Self::new(
            "audit",
            format!("the action could not be recorded, so it is not done: {shortage}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_something_from_being_written_is_told_apart() {
        let refusal = |number| {
            let error = std::io::Error::from_raw_os_error(number);
            let refusal = Refusal::from(AuditError::Write(error));
            refusal.message().to_owned()
        };
        for number in TOO_MANY_FILES {
            assert!(refusal(number).contains("ulimit -n"), "{number}");
        }
        assert!(refusal(28).contains("disk of the state directory full"));
    }
}
