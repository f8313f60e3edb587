//! From samples to the figures of a table: percentiles by nearest rank, so that each is a value that was measured.
//!
//! Never drops a sample: a failure is counted beside the others, not left out.

use std::time::Duration;

use anyhow::Context as _;

/// A run of belljar's that went well.
#[derive(Debug)]
pub(crate) struct Ran {
    /// What its client waited.
    pub(crate) took: Duration,
    /// Where the server says that the time went: names and milliseconds.
    pub(crate) stages: Vec<(String, f64)>,
}

/// What one candidate came to over all rounds.
#[derive(Debug)]
pub(crate) struct Series {
    /// The candidate, as the table names it.
    pub(crate) name: String,
    unit: Unit,
    samples: Vec<f64>,
    failures: usize,
    first_failure: Option<String>,
    /// How much was done per second over all of it, where that is what counts.
    pub(crate) rate: Option<Rate>,
    /// What one sample did, for a rate at the median.
    work: Option<(f64, &'static str)>,
    /// What the server says of each run.
    stages: Vec<(String, Vec<f64>)>,
}

/// What a sample is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Ms,
    /// Mebibytes.
    Mib,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Mib => "MiB",
        }
    }
}

/// So much per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// How much.
    pub(crate) per_second: f64,
    /// Of what.
    pub(crate) of: &'static str,
}

impl Series {
    /// No samples yet; in milliseconds.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: Unit::Ms,
            samples: Vec::new(),
            failures: 0,
            first_failure: None,
            rate: None,
            work: None,
            stages: Vec::new(),
        }
    }

    /// Samples in this unit.
    pub(crate) fn of(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Each sample does so much work: the table then shows the rate at the median.
    pub(crate) fn with_work(self, amount: f64, of: &'static str) -> Self {
        Self {
            work: Some((amount, of)),
            ..self
        }
    }

    /// The unit of its samples.
    pub(crate) fn unit(&self) -> Unit {
        self.unit
    }

    /// Adds a value.
    pub(crate) fn push(&mut self, value: f64) {
        self.samples.push(value);
    }

    /// Adds what a round came to.
    pub(crate) fn record(&mut self, outcome: anyhow::Result<Duration>) {
        match outcome {
            Ok(took) => self.push(took.as_secs_f64() * 1000.0),
            Err(error) => self.fail(&error),
        }
    }

    /// Adds what a run of belljar's came to, with its stages.
    pub(crate) fn record_run(&mut self, outcome: anyhow::Result<Ran>) {
        match outcome {
            Ok(ran) => {
                self.record(Ok(ran.took));
                for (name, ms) in ran.stages {
                    match self.stages.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, all)) => all.push(ms),
                        None => self.stages.push((name, vec![ms])),
                    }
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    /// The median of each stage, in the server's order.
    pub(crate) fn stages(&self) -> Vec<(&str, f64)> {
        self.stages
            .iter()
            .filter_map(|(name, all)| Some((name.as_str(), percentile(all, 50)?)))
            .collect()
    }

    /// Counts a failure and keeps the first one's words.
    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        self.failures += 1;
        if self.first_failure.is_none() {
            self.first_failure = Some(format!("{error:#}"));
        }
    }

    /// Adds the samples and failures of another of the same kind.
    pub(crate) fn take_in(&mut self, other: Self) {
        self.samples.extend(other.samples);
        self.failures += other.failures;
        if self.first_failure.is_none() {
            self.first_failure = other.first_failure;
        }
    }

    /// How many rounds went well.
    pub(crate) fn count(&self) -> usize {
        self.samples.len()
    }

    /// How many did not.
    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// Why the first failure failed.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// The smallest sample that so many percent of all do not exceed; `None` without samples.
    pub(crate) fn percentile(&self, percent: usize) -> Option<f64> {
        percentile(&self.samples, percent)
    }

    /// The median.
    pub(crate) fn p50(&self) -> anyhow::Result<f64> {
        self.percentile(50)
            .with_context(|| match &self.first_failure {
                Some(why) => format!("no round of `{}` went well: {why}", self.name),
                None => format!("`{}` was not measured", self.name),
            })
    }

    /// The rate over all, else that of the median.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate.or_else(|| {
            let (amount, of) = self.work?;
            let seconds = self.percentile(50)? / 1000.0;
            Some(Rate {
                per_second: amount / seconds,
                of,
            })
        })
    }
}

fn percentile(samples: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}
