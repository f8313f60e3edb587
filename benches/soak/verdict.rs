//! What must hold after a soak.

use crate::{
    server::{End, POOL},
    table::{Soak, mib},
};

/// How much more memory the server may have at rest after the last minute than after its warm-up, in parts of a hundred.
const MEMORY_GROWTH: u64 = 10;
/// How much longer short runs may take in the last minute than in the second, by their 99th of a hundred.
const SLOWER: f64 = 1.5;

/// One thing that must hold.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) held: bool,
}

fn finding(what: impl Into<String>, measured: impl Into<String>, held: bool) -> Finding {
    Finding {
        what: what.into(),
        measured: measured.into(),
        held,
    }
}

pub(crate) fn judge(soak: &Soak, end: &End) -> Vec<Finding> {
    let warm = soak.warm.unwrap_or_default();
    let after = soak.after.unwrap_or_default();
    let calls = soak.minutes.iter().flat_map(|minute| &minute.calls);
    let faults: Vec<&str> = calls.filter_map(|call| call.fault.as_deref()).collect();
    let p99 = |at: usize| {
        let minute = soak.minutes.get(at);
        minute.map_or(0.0, |minute| minute.short(99).as_secs_f64())
    };
    let last = p99(soak.minutes.len().saturating_sub(1));
    let slower = last / p99(1);
    // Each container that waits has a connection: the pool may be smaller or larger than it was.
    let own = |descriptors: u64, containers: u64| descriptors.saturating_sub(containers);
    let descriptors = (
        own(warm.descriptors, warm.containers),
        own(after.descriptors, after.containers),
    );
    vec![
        finding(
            "every call ends as it must",
            match faults.first() {
                None => "all do".to_owned(),
                Some(first) => format!("{} do not; the first: {}", faults.len(), cell(first)),
            },
            faults.is_empty(),
        ),
        finding(
            format!(
                "memory at rest within {MEMORY_GROWTH} % of what it was after the warm-up of {} min",
                soak.warm_up
            ),
            format!(
                "{:.1} MiB, was {:.1}",
                mib(after.memory_kib),
                mib(warm.memory_kib)
            ),
            after.memory_kib * 100 <= warm.memory_kib * (100 + MEMORY_GROWTH),
        ),
        finding(
            "descriptors level, but for those of containers that wait",
            format!("{}, were {}", descriptors.1, descriptors.0),
            descriptors.1 <= descriptors.0,
        ),
        finding(
            "threads level",
            format!("{}, were {}", after.threads, warm.threads),
            after.threads <= warm.threads,
        ),
        finding(
            format!("no container but the {POOL} of the pool at most"),
            format!("{}", after.containers),
            after.containers <= POOL,
        ),
        finding(
            "no zombie",
            format!("{}", after.zombies),
            after.zombies == 0,
        ),
        finding(
            format!(
                "p99 of short runs in the last minute within {SLOWER} times that of the second"
            ),
            format!("{slower:.2} times"),
            // A minute without a short run shows nothing.
            last > 0.0 && slower <= SLOWER,
        ),
        finding(
            "a stop leaves no container, no volume but the guest's, no file of its own",
            format!("{}, {}, {}", end.containers, end.volumes, end.files),
            end.stopped_well && end.containers + end.volumes + end.files == 0,
        ),
        finding(
            "the record's chain holds",
            if end.chain_holds { "yes" } else { "no" },
            end.chain_holds,
        ),
    ]
}

/// A text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    let short: String = text.chars().take(200).collect();
    short.replace(['|', '\n'], " ")
}
