// SPDX-License-Identifier: Apache-2.0

use super::{milliseconds_between, SummaryCollector};
use crate::summary::Summary;

/// Collects the times between messages, in milliseconds.
///
/// A *high* average means that messages arrive too rarely or are lost. A *high* standard deviation means that messages
/// arrive irregularly, for example in bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodCollector {
    periods: SummaryCollector,
    /// The time of the last message, in nanoseconds. Before the first message, the value is [`NONE`](Self::NONE), which
    /// is later than any message. So one comparison detects two cases: there is no last message, or the clock was
    /// stepped back.
    last: i64,
    first: FirstPeriod,
}

impl Default for PeriodCollector {
    fn default() -> Self {
        Self::new(FirstPeriod::default())
    }
}

/// Whether the first message of a window has a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FirstPeriod {
    /// The first message has no period: n messages have n-1 periods, as ROS 2's concept page "Topic statistics"
    /// defines.
    #[default]
    NoSample,
    /// The period of the first message is the time since the last message of the earlier windows, as in rclcpp. So even
    /// a topic with at most one message per window has periods.
    CarriedOver,
}

impl PeriodCollector {
    const NONE: i64 = i64::MAX;

    /// Creates a collector. [`PeriodCollector::default`] creates a collector with [`FirstPeriod::NoSample`].
    pub fn new(first: FirstPeriod) -> Self {
        Self { periods: SummaryCollector::default(), last: Self::NONE, first }
    }

    /// Accepts a message. Its callback starts at `now`, in nanoseconds.
    ///
    /// The very first message gives no sample. Whether the first message of each later window gives a sample depends on
    /// [`FirstPeriod`]. A message with an earlier time than the last message gives no sample, because the clock was
    /// stepped back.
    #[inline]
    pub fn accept(&mut self, now: i64) {
        let last = std::mem::replace(&mut self.last, now);
        if now >= last {
            self.periods.accept_finite(milliseconds_between(last, now));
        }
    }

    /// Returns whether a message at the time `now` has a period. A message has no period if it is the very first
    /// message, the first message of a window with [`FirstPeriod::NoSample`], or earlier than the last message.
    #[inline(always)]
    pub(crate) fn has_period(&self, now: i64) -> bool {
        now >= self.last
    }

    /// Accepts a message that [has a period](Self::has_period).
    #[inline(always)]
    pub(crate) fn add_next(&mut self, now: i64) {
        let last = std::mem::replace(&mut self.last, now);
        self.periods.accept_finite(milliseconds_between(last, now));
    }

    /// Returns the sample that [`accept`](Self::accept) will accept, if the message has a period. (`accept` does not
    /// call this function, because `accept` would then take twice as many instructions.)
    #[inline]
    pub(crate) fn sample(&self, now: i64) -> Option<f64> {
        (now >= self.last).then(|| milliseconds_between(self.last, now))
    }

    /// Ends a window: returns the summary of the window's periods in milliseconds, and starts the next window.
    pub fn take(&mut self) -> Summary {
        if self.first == FirstPeriod::NoSample {
            self.last = Self::NONE;
        }
        self.periods.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: i64 = 1_000_000;

    #[test]
    fn n_messages_make_n_minus_1_periods_of_a_window() {
        use FirstPeriod::{CarriedOver, NoSample};
        for (first, windows, expected, text) in [
            (NoSample, &[&[0, 10, 20, 30, 40][..]][..], &[(4, 10.0)][..], "between messages"),
            (NoSample, &[&[0], &[10]], &[(0, f64::NAN); 2], "no period crosses the edge of a window"),
            (
                CarriedOver,
                &[&[0], &[1500]],
                &[(0, f64::NAN), (1, 1500.0)],
                "a period crosses the edge of a window",
            ),
            (NoSample, &[&[100, 110, 50, 60]], &[(2, 10.0)], "a step back affects no other period"),
        ] {
            let mut periods = PeriodCollector::new(first);
            for (messages, (count, period)) in windows.iter().zip(expected) {
                for time in *messages {
                    periods.accept(1_790_000_000_000_000_000 + time * MILLISECOND);
                }
                let window = periods.take();
                assert_eq!(window.sample_count, *count, "{text}");
                for figure in [window.average, window.minimum, window.maximum] {
                    assert!(figure == *period || figure.is_nan() && *count == 0, "{text}: {window:?}");
                }
            }
        }
    }
}
