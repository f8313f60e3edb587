//! Where the time of a run went, from the call to the answer. For operators and benchmarks: nothing is ever decided by
//! it, and the part that the guest tells of is only its claim.

use std::time::Duration;

use tokio::time::Instant;

/// The time of one run by stage, in the order of the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Until the call was allowed and had a place, or its session's turn.
    pub queue: Duration,
    /// Until there was a sandbox.
    pub lease: Duration,
    /// Until the packages that were asked for were inside.
    pub install: Duration,
    /// Until the inputs were inside, the run was recorded as begun, and the program was on its way.
    pub send: Duration,
    /// Until the guest said that the program runs.
    pub start: Duration,
    /// The program's own time, as the guest tells it.
    pub run: Duration,
    /// Until everything that it left behind was killed and its output and files were told of.
    pub drain: Duration,
    /// Until its files were copied out.
    pub collect: Duration,
    /// Until the outputs were kept and the run was recorded.
    pub reply: Duration,
}

impl Stages {
    /// Each stage by its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Duration); 9] {
        let Self {
            queue,
            lease,
            install,
            send,
            start,
            run,
            drain,
            collect,
            reply,
        } = *self;
        [
            ("queue", queue),
            ("lease", lease),
            ("install", install),
            ("send", send),
            ("start", start),
            ("run", run),
            ("drain", drain),
            ("collect", collect),
            ("reply", reply),
        ]
    }
}

/// Measures one stage after the other.
#[derive(Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the last lap.
    pub(super) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now.duration_since(self.0);
        self.0 = now;
        lap
    }
}
