//! How many sandboxes of a class shall wait: more after a call found none, fewer when some were never needed,
//! and the floor when nobody has come for a while.
//!
//! Pure: the clock is the caller's.

use std::time::Duration;

use tokio::time::Instant;

/// How long sandboxes must have waited in vain before there are fewer. Long enough for an agent to read an answer and
/// think of its next call.
const WINDOW: Duration = Duration::from_mins(1);

/// The demand for one class.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    target: usize,
    /// How many wait even if nobody comes.
    floor: usize,
    /// The fewest that have waited at any time of the window: those were not needed in it.
    spare: usize,
    window: Instant,
    used: Option<Instant>,
}

/// Whether a call found a sandbox that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Ready,
    Nothing,
}

/// The bounds that the operator set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most that wait, of all classes together.
    pub(super) max: usize,
    /// The fewest of a class that is in use.
    pub(super) min: usize,
    /// How long nobody must have come before a class counts as not in use.
    pub(super) idle: Duration,
}

impl Demand {
    /// Nobody has asked yet.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            target: 0,
            floor: 0,
            spare: usize::MAX,
            window: now,
            used: None,
        }
    }

    /// How many shall wait.
    pub(super) fn target(&self) -> usize {
        self.target
    }

    /// When somebody asked last.
    pub(super) fn used(&self) -> Option<Instant> {
        self.used
    }

    /// How many wait even if nobody comes.
    pub(super) fn floor(&self) -> usize {
        self.floor
    }

    /// So many shall wait whatever happens.
    pub(super) fn keep(&mut self, floor: usize) {
        self.floor = floor;
        self.target = self.target.max(floor);
    }

    /// Somebody came.
    pub(super) fn asked(&mut self, now: Instant, found: Found, bounds: Bounds) {
        self.used = Some(now);
        let wanted = match found {
            Found::Ready => self.target.max(1),
            Found::Nothing => self.target + 1,
        };
        self.target = wanted.max(bounds.min).min(bounds.max);
    }

    /// So many wait now that a call has taken one, or found none.
    pub(super) fn left(&mut self, ready: usize) {
        self.spare = self.spare.min(ready);
    }

    /// Time has passed, and so many wait.
    pub(super) fn settle(&mut self, now: Instant, ready: usize, bounds: Bounds) {
        let in_use = self
            .used
            .is_some_and(|used| now.duration_since(used) < bounds.idle);
        if !in_use {
            self.target = self.floor.min(bounds.max);
            return;
        }
        if now.duration_since(self.window) < WINDOW {
            return;
        }
        let spare = if self.spare == usize::MAX {
            0
        } else {
            self.spare
        };
        // Half of what was never needed, so that one quiet minute does not undo what a busy hour taught.
        let least = self.floor.max(bounds.min).max(1).min(bounds.max);
        self.target = (self.target - self.target.min(spare.div_ceil(2))).max(least);
        self.spare = ready;
        self.window = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        max: 4,
        min: 0,
        idle: Duration::from_mins(10),
    };

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn nothing_waits_before_the_first_use_and_a_miss_raises_the_target_up_to_the_ceiling() {
        let now = Instant::now();
        let mut demand = Demand::new(now);
        assert_eq!(demand.target(), 0);
        for expected in [1, 2, 3, 4, 4] {
            demand.asked(now, Found::Nothing, BOUNDS);
            assert_eq!(demand.target(), expected);
        }
        demand.asked(now, Found::Ready, BOUNDS);
        assert_eq!(demand.target(), 4);
    }

    #[tokio::test]
    async fn what_was_never_needed_goes_by_halves_and_the_last_stays_while_in_use() {
        let start = Instant::now();
        let mut demand = Demand::new(start);
        for _ in 0..4 {
            demand.asked(start, Found::Nothing, BOUNDS);
        }
        // One call a window leaves three that nobody needed.
        let mut targets = Vec::new();
        for minute in 1..=6 {
            let now = after(start, minute * 60);
            demand.used = Some(now);
            demand.left(demand.target() - 1);
            demand.settle(now, demand.target(), BOUNDS);
            targets.push(demand.target());
        }
        assert_eq!(targets.last(), Some(&1), "{targets:?}");
        assert!(targets.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[tokio::test]
    async fn a_class_that_nobody_uses_falls_to_its_floor() {
        let start = Instant::now();
        let mut used = Demand::new(start);
        used.asked(start, Found::Nothing, Bounds { min: 3, ..BOUNDS });
        assert_eq!(used.target(), 3, "the least of a class in use");
        let mut kept = Demand::new(start);
        kept.keep(2);
        assert_eq!(kept.target(), 2, "also before the first use");
        let later = after(start, 600);
        used.settle(later, 3, BOUNDS);
        kept.settle(later, 2, BOUNDS);
        assert_eq!((used.target(), kept.target()), (0, 2));
    }

    #[tokio::test]
    async fn the_ceiling_holds_whatever_the_floor() {
        let start = Instant::now();
        let tight = Bounds { max: 1, ..BOUNDS };
        let mut demand = Demand::new(start);
        demand.keep(8);
        demand.settle(start, 0, tight);
        assert_eq!(demand.target(), 1);
        let off = Bounds { max: 0, ..BOUNDS };
        let mut demand = Demand::new(start);
        demand.asked(start, Found::Nothing, off);
        demand.settle(after(start, 61), 0, off);
        assert_eq!(demand.target(), 0);
    }
}
