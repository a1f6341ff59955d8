// SPDX-License-Identifier: Apache-2.0

//! Times of the system clock as times of the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns how long ago a time of the system clock is, by that clock, which may have been stepped since.
pub fn age(system_time: i64) -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    Duration::from_nanos(now.saturating_sub(system_time).try_into().unwrap_or_default())
}

/// Returns the time of an event from its age. The time lies between two known times.
///
/// The age is by the system clock. A step of that clock shifts the result by at most the time between the two: one tick
/// of the monitor.
pub fn between(earliest: Instant, now: Instant, age: Duration) -> Instant {
    now.checked_sub(age).map_or(earliest, |time| time.max(earliest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_between_two_readings_of_any_clock() {
        let now = Instant::now();
        let (earliest, second) = (now - Duration::from_secs(2), Duration::from_secs(1));
        assert_eq!(between(earliest, now, second), now - second);
        assert_eq!(between(earliest, now, Duration::ZERO), now);
        assert_eq!(between(earliest, now, 3600 * second), earliest, "set forward by an hour");
        assert_eq!(between(earliest, now, Duration::MAX), earliest);
        assert_eq!(age(i64::MAX), Duration::ZERO, "set back");
        assert!(age(i64::MIN) > Duration::from_secs(200 * 365 * 86_400));
    }
}
