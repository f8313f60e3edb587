//! Who asks. Everything that is kept (sessions, uploads, artifacts) belongs to one caller.

use serde::{Deserialize, Serialize};

/// The party on whose behalf a call is made.
///
/// Ids of one caller are unknown to every other one. On stdio there is one caller a user: the one who
/// started the server, and whose files it keeps from window to window.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// The user who started the server on their own machine and speaks over its standard streams.
    Local,
}

impl Caller {
    /// The name under which the caller stands in the audit log.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Local => "local",
        }
    }
}
