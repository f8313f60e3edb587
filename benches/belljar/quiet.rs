//! Waiting until the machine is quiet: what one candidate leaves behind (a pool that fills again, a container on its
//! way out) must be paid before the next one is timed, or it would be charged to that one.
//!
//! Never waits for ever: on a machine with other work it goes on after [`PATIENCE`], and the table says how often.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

/// The least wait: what starts a moment after an answer must have started by then.
const LEAST: Duration = Duration::from_millis(100);
/// How long the processors are watched at a time.
const WINDOW: Duration = Duration::from_millis(100);
/// The clock ticks (10 ms of one processor) that may be spent in a quiet window.
const QUIET_TICKS: u64 = 2;
/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(4);
/// The wait where the kernel does not say how busy it is.
const BLIND: Duration = Duration::from_secs(1);

static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);

/// Waits until the processors have next to nothing to do.
pub(crate) fn settle() {
    settle_within(PATIENCE);
}

/// The same with another patience, where more is to be done than a round leaves behind.
pub(crate) fn settle_within(patience: Duration) {
    let began = Instant::now();
    sleep(LEAST);
    let Some(mut before) = busy_ticks() else {
        sleep(BLIND);
        return;
    };
    while began.elapsed() < patience {
        sleep(WINDOW);
        let now = busy_ticks().unwrap_or(before);
        if now.saturating_sub(before) <= QUIET_TICKS {
            return;
        }
        before = now;
    }
    GIVEN_UP.fetch_add(1, Ordering::Relaxed);
}

/// How often [`settle`] gave up since it was asked last.
pub(crate) fn given_up() -> usize {
    GIVEN_UP.swap(0, Ordering::Relaxed)
}

/// The ticks that all processors together have spent on anything but waiting.
fn busy_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is in the first two already.
    let busy = [0, 1, 2, 5, 6, 7];
    Some(busy.iter().filter_map(|at| ticks.get(*at)).sum())
}
