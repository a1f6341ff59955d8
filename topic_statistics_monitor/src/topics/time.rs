// SPDX-License-Identifier: Apache-2.0

//! The conversion of times on the system clock to times on the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns how long ago a time on the system clock is. The result is wrong if the system clock was stepped after this
/// time.
pub fn age(system_time: i64) -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    Duration::from_nanos(now.saturating_sub(system_time).try_into().unwrap_or_default())
}

/// Returns the time of an event from its age. The result is at least `earliest` and at most `now`.
///
/// The age was measured on the system clock. A step of the system clock changes the result by at most the time from
/// `earliest` to `now`, which is one tick of the monitor.
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
        assert_eq!(between(earliest, now, 3600 * second), earliest, "the clock was set forward by an hour");
        assert_eq!(between(earliest, now, Duration::MAX), earliest);
        assert_eq!(age(i64::MAX), Duration::ZERO, "the clock was set back");
        assert!(age(i64::MIN) > Duration::from_secs(200 * 365 * 86_400));
    }
}
