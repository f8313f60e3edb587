//! How a run ended. The program's own failure is a result, never a fault of the sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run ended, each told apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The program ended by itself; see `exit_code`.
    Exited,
    /// A signal that belljar did not send ended the program; see `signal`.
    Signaled,
    /// The time allowed was over and belljar ended the program.
    TimedOut,
    /// The kernel killed a process of the run because its memory was used up.
    OutOfMemory,
    /// The program wrote more than `limits.output_kib` allows and belljar ended it.
    OutputLimit,
    /// The caller cancelled the call.
    Cancelled,
    /// The sandbox itself died or broke its protocol; what was written before is kept.
    SandboxLost,
}

impl Status {
    /// The name that clients see.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::OutputLimit => "output_limit",
            Self::Cancelled => "cancelled",
            Self::SandboxLost => "sandbox_lost",
        }
    }
}
