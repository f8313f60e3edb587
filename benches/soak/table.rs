//! What was measured, and how it is told.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use crate::{
    CLIENTS,
    kinds::{Call, Kind},
    process::Sample,
    server::End,
    verdict::Finding,
};

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Soak {
    pub(crate) minutes: Vec<Minute>,
    /// How many of them warmed the server up.
    pub(crate) warm_up: u64,
    /// At rest, after these.
    pub(crate) warm: Option<Sample>,
    /// At rest, after the last.
    pub(crate) after: Option<Sample>,
}

/// One minute under load.
pub(crate) struct Minute {
    pub(crate) calls: Vec<Call>,
    /// The medians of its samples.
    pub(crate) usual: Sample,
}

impl Minute {
    pub(crate) fn of(samples: &[Sample], calls: Vec<Call>) -> Self {
        let middle = |of: fn(&Sample) -> u64| {
            let mut all: Vec<u64> = samples.iter().map(of).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        let usual = Sample {
            memory_kib: middle(|sample| sample.memory_kib),
            descriptors: middle(|sample| sample.descriptors),
            threads: middle(|sample| sample.threads),
            containers: 0,
            zombies: 0,
        };
        Self { calls, usual }
    }

    /// How long short runs took, as a part of a hundred of them says: 50 is the median.
    pub(crate) fn short(&self, part: usize) -> Duration {
        percentile(
            self.calls.iter().filter(|call| call.kind == Kind::Short),
            part,
        )
    }

    pub(crate) fn line(&self, number: u64) -> String {
        format!(
            "| {number} | {} | {:.0} | {:.0} | {:.1} | {} | {} |",
            self.calls.len(),
            millis(self.short(50)),
            millis(self.short(99)),
            mib(self.usual.memory_kib),
            self.usual.descriptors,
            self.usual.threads,
        )
    }
}

pub(crate) fn percentile<'a>(calls: impl Iterator<Item = &'a Call>, part: usize) -> Duration {
    let mut all: Vec<Duration> = calls.map(|call| call.took).collect();
    all.sort_unstable();
    let at = (all.len() * part).div_ceil(100).saturating_sub(1);
    all.get(at).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Everything, in Markdown.
pub(crate) fn render(soak: &Soak, end: &End, findings: &[Finding]) -> String {
    let mut text = format!(
        "{} minutes, {CLIENTS} clients at a time, every kind of call in turn.\n\n\
         | minute | calls | short run p50, ms | p99, ms | memory, MiB | descriptors | threads |\n|---|---|---|---|---|---|---|\n",
        soak.minutes.len()
    );
    for (number, minute) in (1..).zip(&soak.minutes) {
        let _ = writeln!(text, "{}", minute.line(number));
    }
    text.push_str(
        "\n| at rest | memory, MiB | descriptors | threads | containers |\n|---|---|---|---|---|\n",
    );
    for (name, sample) in [
        (format!("after minute {}", soak.warm_up), soak.warm),
        ("after the last".to_owned(), soak.after),
    ] {
        let sample = sample.unwrap_or_default();
        let _ = writeln!(
            text,
            "| {name} | {:.1} | {} | {} | {} |",
            mib(sample.memory_kib),
            sample.descriptors,
            sample.threads,
            sample.containers
        );
    }
    let mut kinds: BTreeMap<Kind, Vec<&Call>> = BTreeMap::new();
    for call in soak.minutes.iter().flat_map(|minute| &minute.calls) {
        kinds.entry(call.kind).or_default().push(call);
    }
    text.push_str(
        "\n| kind | calls | p50, ms | p99, ms | not as it must be |\n|---|---|---|---|---|\n",
    );
    for (kind, calls) in kinds {
        let faults = calls.iter().filter(|call| call.fault.is_some()).count();
        let part = |part| millis(percentile(calls.iter().copied(), part));
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.0} | {faults} |",
            kind.name(),
            calls.len(),
            part(50),
            part(99),
        );
    }
    text.push_str("\n| what must hold | measured | |\n|---|---|---|\n");
    for finding in findings {
        let held = if finding.held {
            "holds"
        } else {
            "**does not hold**"
        };
        let _ = writeln!(text, "| {} | {} | {held} |", finding.what, finding.measured);
    }
    let _ = writeln!(
        text,
        "\nAfter its stop: {} containers, {} volumes, {} files.",
        end.containers, end.volumes, end.files
    );
    text
}
