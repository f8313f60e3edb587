//! Why a session cannot be used.

use crate::types::SandboxId;

/// Calls that may wait for one session beside the one that runs. More is a loop that should be slowed down, and
/// each holds its code and inputs in memory.
pub(super) const MAX_WAITING: usize = 8;
/// The most sessions that a message lists.
pub(super) const MAX_LISTED: usize = 8;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// Its caller closed it.
    #[error("it was closed")]
    Closed,
    /// Nobody used it for too long.
    #[error("it lay idle for {seconds} s")]
    Idle {
        /// How long a session may lie idle.
        seconds: u64,
    },
    /// Its time was over.
    #[error("its lease of {seconds} s was over")]
    LeaseOver {
        /// The whole lease.
        seconds: u64,
    },
    /// Its sandbox died or broke its protocol.
    #[error("its sandbox was lost")]
    Lost,
    /// The server stops.
    #[error("the server is stopping")]
    Stopping,
}

/// Why a session cannot be used, or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Not an id, an id that never was, or one of another caller's: these cannot be told apart.
    #[error("unknown session: open one with open_session")]
    Unknown,
    /// There was such a session.
    #[error("this session is gone, and its files with it: {0}. Open another with open_session")]
    Gone(Gone),
    /// Too many calls wait for it.
    #[error(
        "this session is busy: it runs one call at a time, and {MAX_WAITING} wait already. Call again later, or open a second session"
    )]
    Busy,
    /// The caller has as many as are allowed.
    #[error(
        "you have {most} sessions, which is the most: close one with close_session; the oldest: {}",
        list(oldest)
    )]
    TooMany {
        /// The most that one caller may have.
        most: u32,
        /// The caller's oldest ones; none where all of them are just being opened or destroyed.
        oldest: Vec<SandboxId>,
    },
    /// The server opens no more sessions.
    #[error("the server is stopping: no session can be opened")]
    Stopping,
}

impl SessionError {
    /// The constant name of the reason, for the audit log and for tests.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_session",
            Self::Gone(Gone::Closed) => "session_closed",
            Self::Gone(Gone::Idle { .. }) => "session_idle",
            Self::Gone(Gone::LeaseOver { .. }) => "session_lease_over",
            Self::Gone(Gone::Lost) => "session_lost",
            Self::Gone(Gone::Stopping) | Self::Stopping => "stopping",
            Self::Busy => "session_busy",
            Self::TooMany { .. } => "too_many_sessions",
        }
    }
}

fn list(ids: &[SandboxId]) -> String {
    if ids.is_empty() {
        return "still being opened or closed".to_owned();
    }
    ids.iter()
        .map(SandboxId::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}
