//! What a row of the table came to: its series, and the claims that they bear out or not.
//!
//! Never rounds in its own favour: a claim is judged by the figure that was measured, not by the one that is shown.

use std::fmt;

use crate::stats::Series;

/// A row that was run.
#[derive(Debug)]
pub(crate) struct Report {
    /// What is compared with what, and what each side's time includes.
    pub(crate) compares: String,
    /// Ours first.
    pub(crate) series: Vec<Series>,
    /// What must hold.
    pub(crate) claims: Vec<Claim>,
    /// What a reader should know of this run.
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Nothing but what is compared.
    pub(crate) fn new(compares: impl Into<String>) -> Self {
        Self {
            compares: compares.into(),
            series: Vec::new(),
            claims: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Claims that the ratio of `ours` to `theirs` lies within `reach`.
    pub(crate) fn ratio(
        &mut self,
        what: impl Into<String>,
        ours: f64,
        theirs: f64,
        reach: Reach,
    ) -> &mut Self {
        self.claim(what, ours / theirs, Shown::Times, reach)
    }

    /// Claims that a figure lies within `reach`.
    pub(crate) fn claim(
        &mut self,
        what: impl Into<String>,
        measured: f64,
        shown: Shown,
        reach: Reach,
    ) -> &mut Self {
        self.claims.push(Claim {
            what: what.into(),
            measured,
            shown,
            reach,
        });
        self
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, note: impl Into<String>) -> &mut Self {
        self.notes.push(note.into());
        self
    }

    /// Says, if a reach was missed, where the time goes that is left to win.
    pub(crate) fn remaining(&mut self, cost: &str) -> &mut Self {
        if !cost.is_empty() && !self.holds() {
            self.note(format!("what remains: {cost}"));
        }
        self
    }

    /// Whether every claim holds.
    pub(crate) fn holds(&self) -> bool {
        self.claims.iter().all(Claim::holds)
    }

    /// Failed rounds of all candidates.
    pub(crate) fn failures(&self) -> usize {
        self.series.iter().map(Series::failures).sum()
    }
}

/// One thing that must hold.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Of what.
    pub(crate) what: String,
    measured: f64,
    shown: Shown,
    reach: Reach,
}

/// How a claim's figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As a ratio.
    Times,
    /// In milliseconds.
    Ms,
    /// In mebibytes.
    Mib,
    /// In megabytes a second.
    MbPerSecond,
}

/// Where a figure must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reach {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// Anywhere: told for comparison.
    Told,
}

impl Claim {
    /// Whether it holds.
    pub(crate) fn holds(&self) -> bool {
        match self.reach {
            Reach::AtMost(most) => self.measured <= most,
            Reach::AtLeast(least) => self.measured >= least,
            Reach::Told => self.measured.is_finite(),
        }
    }

    /// The reach in words.
    pub(crate) fn reach(&self) -> String {
        match self.reach {
            Reach::AtMost(most) => format!("≤ {}", self.shown.write(most)),
            Reach::AtLeast(least) => format!("≥ {}", self.shown.write(least)),
            Reach::Told => "-".to_owned(),
        }
    }

    /// The figure in words.
    pub(crate) fn measured(&self) -> String {
        self.shown.write(self.measured)
    }

    /// The verdict in a word.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.reach, self.holds()) {
            (Reach::Told, _) => "-",
            (_, true) => "met",
            (_, false) => "**not met**",
        }
    }
}

impl Shown {
    fn write(self, value: f64) -> String {
        match self {
            // A ratio far below 1 is easier to read the other way round.
            Self::Times if value > 0.0 && value < 0.2 => format!("1/{:.1} ×", 1.0 / value),
            Self::Times => format!("{value:.2} ×"),
            // What is told of less than a millisecond is told in its hundredths.
            Self::Ms if value.abs() < 1.0 => format!("{value:.2} ms"),
            Self::Ms => format!("{value:.1} ms"),
            Self::Mib => format!("{value:.1} MiB"),
            Self::MbPerSecond => format!("{value:.0} MB/s"),
        }
    }
}

/// How a row ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was run.
    Ran(Report),
    /// This machine lacks what it needs, which this says.
    Skipped(String),
    /// It could not be run to its end.
    Failed(String),
}

/// What a row needs and this machine does not have: the row is then skipped, and the table says so.
#[derive(Debug)]
pub(crate) struct Lacking(pub(crate) String);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lacking {}

impl Ended {
    /// From a row's own result.
    pub(crate) fn of(result: anyhow::Result<Report>) -> Self {
        match result {
            Ok(report) => Self::Ran(report),
            Err(error) => match error.downcast_ref::<Lacking>() {
                Some(lacking) => Self::Skipped(lacking.to_string()),
                None => Self::Failed(format!("{error:#}")),
            },
        }
    }
}
