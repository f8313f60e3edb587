//! The wall clock, read in this place alone.
//!
//! It dates things for people, for other processes and for the next start. It may jump, forwards and back, whenever
//! somebody sets it; so nothing may measure with it how long something takes or how long something has to wait: that is
//! what `Instant` is for. `clippy.toml` keeps everybody else from it.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// What the wall clock says.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// The same, as times of files are.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub fn file_clock() -> SystemTime {
    SystemTime::now()
}

/// How old something of this time is; nothing at all where the clock was set back behind it.
#[must_use]
pub fn age_of(time: SystemTime) -> Duration {
    file_clock().duration_since(time).unwrap_or_default()
}

/// A time as callers are told it: RFC 3339, in whole seconds, never later than it is.
#[must_use]
pub fn told(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dated_in_the_future_has_no_age() {
        let hour = Duration::from_hours(1);
        assert_eq!(age_of(file_clock() + hour), Duration::ZERO);
        assert!(age_of(file_clock() - hour) >= hour);
    }

    #[test]
    fn a_time_is_told_in_whole_seconds() {
        let time: Timestamp = "2026-11-30T10:31:59.999999999Z".parse().unwrap();
        assert_eq!(told(time), "2026-11-30T10:31:59Z");
    }
}
