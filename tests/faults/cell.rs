//! The words of the matrix: what a caller does, on which server, what breaks, and what must come of it.
//!
//! Says nothing about how any of it is done: `act` makes the calls, `proxy` and `pump` break them.

use crate::{
    proxy::Fault,
    pump::Breach,
    step::{Phase, Step},
};

/// What a caller does while something breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// A short program that leaves a file.
    Run,
    /// A program that prints, and goes on for a while.
    Long,
    /// The same with less time than it takes.
    Overlong,
    /// A program with a large input.
    Upload,
    /// A program with more memory than those that wait have.
    Raise,
    /// A session that is opened.
    Open,
    /// A session that is closed; the fault comes with the close.
    Close,
    /// A program that asks a server through its way out.
    Ask,
    /// The same in a session, where the fault comes once it is open.
    AskIn,
    /// A file that is held for later runs.
    Hold,
    /// A file that is written into a session.
    Put,
    /// An artifact of an earlier run that is fetched.
    Fetch,
    /// A file of a session that is fetched.
    Take,
}

impl Act {
    /// Whether it is about a session that was there before.
    pub(crate) fn in_session(self) -> bool {
        match self {
            Self::Close | Self::AskIn | Self::Put | Self::Take => true,
            Self::Run
            | Self::Long
            | Self::Overlong
            | Self::Upload
            | Self::Raise
            | Self::Open
            | Self::Ask
            | Self::Hold
            | Self::Fetch => false,
        }
    }

    /// Whether it asks a server through a way out.
    pub(crate) fn goes_out(self) -> bool {
        matches!(self, Self::Ask | Self::AskIn)
    }

    /// What the audit log calls it.
    pub(crate) fn action(self) -> &'static str {
        match self {
            Self::Open => "open_session",
            Self::Close => "close_session",
            Self::Hold | Self::Put => "upload_file",
            Self::Fetch | Self::Take => "fetch_artifact",
            Self::Run
            | Self::Long
            | Self::Overlong
            | Self::Upload
            | Self::Raise
            | Self::Ask
            | Self::AskIn => "run_code",
        }
    }
}

/// On which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// One that has worked before, and has no pool.
    Warm,
    /// One that has asked nothing of its daemon yet.
    New,
    /// One with a pool in which a sandbox waits.
    Pool,
    /// One with a pool that is empty yet.
    NewPool,
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// So many calls of this step, after some that pass.
    Call {
        step: Step,
        fault: Fault,
        skip: u32,
        times: u32,
    },
    /// The attach stream.
    Stream(Phase, Breach),
    /// The attach stream while the program runs, for good, and then a call.
    RunAndCall(Breach, Step, Fault),
    /// The daemon seems to have no volume with the guest yet, and then a call.
    Seeding(Step, Fault, u32),
    /// Every call of every step, until the answer has come: what is in order without a daemon asks it nothing.
    Every(Fault),
}

/// What the caller must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Nothing: it works.
    Works,
    /// Either: whether the daemon was as far already is chance.
    WorksOrRefused,
    /// An error with each of these words.
    Refused(&'static [&'static str]),
    /// The same, or a run that is lost before it printed anything: whether the guest had answered already is chance.
    RefusedOrLost(&'static [&'static str]),
    /// A result of this status that keeps this output.
    Ends(&'static str, &'static str),
}

/// When it is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// In `make test`.
    Always,
    /// In `make faults`, for its time.
    Full,
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) act: Act,
    pub(crate) on: On,
    pub(crate) breaks: Break,
    pub(crate) expect: Expect,
    pub(crate) tier: Tier,
}

/// What a program printed before its stream broke.
pub(crate) const PARTIAL: &str = "before\n";
