// SPDX-License-Identifier: Apache-2.0

use super::{milliseconds_between, SummaryCollector};
use crate::summary::Summary;

/// Collects the ages of messages, in milliseconds.
///
/// *High* ages mean that the driver, the network or the executor delays messages. *Negative* ages mean that the clocks
/// of the publisher and of this host differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgeCollector(SummaryCollector);

impl AgeCollector {
    /// Accepts a message. `stamp` is the message's stamp, and `now` is the start of the message's callback. Both times
    /// are in nanoseconds on the same clock.
    ///
    /// A stamp or a time of zero means "not set" in ROS, so such a message gives no sample.
    #[inline]
    pub fn accept(&mut self, stamp: i64, now: i64) {
        if stamp != 0 && now != 0 {
            self.0.accept_finite(milliseconds_between(stamp, now));
        }
    }

    /// Returns the sample that [`accept`](Self::accept) accepts; `None` if the stamp or the time is zero. (`accept`
    /// does not call this function, because `accept` would then take twice as many instructions.)
    #[inline]
    pub(crate) fn sample(stamp: i64, now: i64) -> Option<f64> {
        (stamp != 0 && now != 0).then(|| milliseconds_between(stamp, now))
    }

    /// Ends a window: returns the summary of the window's ages in milliseconds, and starts the next window.
    pub fn take(&mut self) -> Summary {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_the_time_since_the_stamp_to_the_nanosecond() {
        for (stamp, now, age, text) in [
            (1_790_000_000_000_000_001, 1_790_000_000_002_000_002, Some(2.000001), "exact to 1 ns"),
            (5_000_000, 2_000_000, Some(-3.0), "the stamp is in the future"),
            (0, 1_790_000_000_000_000_000, None, "the stamp is zero"),
            (1_790_000_000_000_000_000, 0, None, "the clock is not set"),
        ] {
            let mut ages = AgeCollector::default();
            ages.accept(stamp, now);
            let window = ages.take();
            assert_eq!((window.sample_count > 0).then_some(window.average), age, "{text}");
        }
    }
}
