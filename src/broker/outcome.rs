//! Decides how a run ended, in one place, from all the evidence.
//!
//! Pure. What belljar did itself comes before what the guest claims: a kill of our own is never called an OOM or a
//! signal of the program's.

use crate::{
    engine::tether::message::{EndedBy, Exit, ExitStatus},
    types::Status,
};

/// Why belljar ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The time was over.
    Deadline,
    /// Too much output.
    OutputLimit,
    /// The caller took the call back, or the server stops.
    Cancelled,
}

/// How the account of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The guest told it to the end.
    Told(Exit),
    /// The sandbox died or broke its protocol before that.
    Lost {
        /// Whether the daemon saw the kernel kill in it for want of memory.
        oom: DaemonOom,
    },
}

/// The daemon's evidence about a sandbox that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DaemonOom {
    /// It saw the kernel kill.
    Seen,
    /// It did not, or could not be asked.
    NotSeen,
}

/// What a run came to; the signal by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// Weighs `cause`, where belljar ended the run itself, and what is known of its end.
pub(super) fn judge(cause: Option<Cause>, end: End) -> Outcome {
    if let Some(cause) = cause {
        return Outcome::of(match cause {
            Cause::Deadline => Status::TimedOut,
            Cause::OutputLimit => Status::OutputLimit,
            Cause::Cancelled => Status::Cancelled,
        });
    }
    match end {
        End::Told(exit) => told(exit),
        End::Lost {
            oom: DaemonOom::Seen,
        } => Outcome::of(Status::OutOfMemory),
        End::Lost {
            oom: DaemonOom::NotSeen,
        } => Outcome::of(Status::SandboxLost),
    }
}

fn told(exit: Exit) -> Outcome {
    match exit.ended_by {
        EndedBy::Deadline => return Outcome::of(Status::TimedOut),
        // Nobody asked for it: the guest is not what it should be.
        EndedBy::Killed => return Outcome::of(Status::SandboxLost),
        EndedBy::Itself => {}
    }
    let (exit_code, signal) = match exit.status {
        ExitStatus::Code(code) => (Some(code), None),
        ExitStatus::Signal(number) => (None, Some(number)),
    };
    // A program that ended well has dealt with the death of a child; one that did not has most likely died of it.
    let status = if exit.oom_kills > 0 && exit.status != ExitStatus::Code(0) {
        Status::OutOfMemory
    } else if signal.is_some() {
        Status::Signaled
    } else {
        Status::Exited
    };
    Outcome {
        status,
        exit_code,
        signal,
    }
}

impl Outcome {
    fn of(status: Status) -> Self {
        Self {
            status,
            exit_code: None,
            signal: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(status: ExitStatus, ended_by: EndedBy, oom_kills: u64) -> End {
        End::Told(Exit {
            status,
            ended_by,
            oom_kills,
            cpu_us: 0,
            peak_rss_bytes: 0,
            wall_us: 0,
            files_omitted: 0,
        })
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table, a line a case")]
    fn every_outcome_is_told_apart() {
        use {EndedBy::*, ExitStatus::*};
        let lost = |oom| End::Lost { oom };
        for (cause, end, status, code, signal) in [
            (
                None,
                exit(Code(0), Itself, 0),
                Status::Exited,
                Some(0),
                None,
            ),
            (
                None,
                exit(Code(73), Itself, 0),
                Status::Exited,
                Some(73),
                None,
            ),
            (
                None,
                exit(Signal(11), Itself, 0),
                Status::Signaled,
                None,
                Some(11),
            ),
            // A child was killed and the program coped.
            (
                None,
                exit(Code(0), Itself, 1),
                Status::Exited,
                Some(0),
                None,
            ),
            // A shell reports the kill of its child as 137.
            (
                None,
                exit(Code(137), Itself, 1),
                Status::OutOfMemory,
                Some(137),
                None,
            ),
            (
                None,
                exit(Signal(9), Itself, 1),
                Status::OutOfMemory,
                None,
                Some(9),
            ),
            // SIGKILL without evidence is the program's own doing.
            (
                None,
                exit(Signal(9), Itself, 0),
                Status::Signaled,
                None,
                Some(9),
            ),
            (
                None,
                exit(Signal(9), Deadline, 0),
                Status::TimedOut,
                None,
                None,
            ),
            (
                None,
                exit(Signal(9), Killed, 0),
                Status::SandboxLost,
                None,
                None,
            ),
            // A kill of our own is never an OOM.
            (
                Some(Cause::OutputLimit),
                exit(Signal(9), Killed, 3),
                Status::OutputLimit,
                None,
                None,
            ),
            (
                Some(Cause::Deadline),
                lost(DaemonOom::Seen),
                Status::TimedOut,
                None,
                None,
            ),
            (
                Some(Cause::Cancelled),
                exit(Code(0), Itself, 0),
                Status::Cancelled,
                None,
                None,
            ),
            (None, lost(DaemonOom::Seen), Status::OutOfMemory, None, None),
            (
                None,
                lost(DaemonOom::NotSeen),
                Status::SandboxLost,
                None,
                None,
            ),
        ] {
            let outcome = judge(cause, end);
            assert_eq!(
                outcome,
                Outcome {
                    status,
                    exit_code: code,
                    signal
                },
                "{cause:?} {end:?}"
            );
        }
    }
}
