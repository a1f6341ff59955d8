// SPDX-License-Identifier: Apache-2.0

//! The waiting time before a request is sent again.

use std::time::{Duration, SystemTime};

/// The longest wait that a collector can demand with the header `Retry-After`. A longer wait is shortened.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// An exponential backoff with jitter: each failure doubles the wait, up to a limit.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Returns a backoff. The first wait is at most `initial`, and every wait is at most `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial: initial.min(max), max, failures: 0 }
    }

    /// Counts a failure, and returns how long to wait.
    ///
    /// Each failure doubles the longest wait, up to the limit. The result is between half of the longest wait and the
    /// longest wait, depending on `random` (from 0 to 1). If the collector demands a wait with `Retry-After`, the
    /// result is this wait plus at most `initial`. Because of `random`, the robots of a fleet do not all send at one
    /// moment.
    pub fn after_failure(&mut self, retry_after: Option<Duration>, random: f64) -> Duration {
        let backoff =
            self.initial.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(self.max);
        self.failures = self.failures.saturating_add(1).min(31);
        match retry_after {
            Some(wait) => wait.min(MAX_RETRY_AFTER) + self.initial.mul_f64(random),
            None => backoff.mul_f64(0.5 + 0.5 * random),
        }
    }

    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns the wait that the header `Retry-After` demands: a number of seconds or a date (RFC 9110, section 10.2.3).
///
/// Returns `None`, so that the backoff decides, if the header is neither a number nor a date, or if the wait is zero.
pub fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    let wait = if !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(header.parse().unwrap_or(u64::MAX))
    } else {
        httpdate::parse_http_date(header).ok()?.duration_since(now).ok()?
    };
    (!wait.is_zero()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_limit_and_start_again_after_an_answer() {
        let mut backoff = Backoff::new(SECOND, 10 * SECOND);
        for (demand, random, seconds) in [
            (None, 1.0, 1),
            (None, 1.0, 2),
            (None, 0.0, 2), // half of 4 s
            (None, 1.0, 8),
            (None, 1.0, 10),
            (Some(30 * SECOND), 0.0, 30),
            (Some(30 * SECOND), 1.0, 31),
            (Some(Duration::MAX), 1.0, 3601),
            (None, 1.0, 10),
        ] {
            assert_eq!(backoff.after_failure(demand, random), seconds * SECOND);
        }
        backoff.reset();
        assert_eq!(backoff.after_failure(None, 1.0), SECOND);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000); // Sunday, 9 September 2001, 01:46:40
        for (header, seconds) in [
            ("120", 120),
            (" 1 ", 1),
            ("Sun, 09 Sep 2001 01:47:40 GMT", 60),
            ("Sun, 09 Sep 2001 01:46:40 GMT", 0),
            ("Sun, 09 Sep 2001 01:46:00 GMT", 0),
            ("99999999999999999999999", u64::MAX),
        ] {
            let wait = Some(Duration::from_secs(seconds)).filter(|_| seconds > 0);
            assert_eq!(retry_after(header, now), wait, "{header}");
        }
        for nothing in ["0", "", "-1", "1.5", "+1", "soon", "\u{664}"] {
            assert_eq!(retry_after(nothing, now), None, "{nothing:?}");
        }
    }
}
