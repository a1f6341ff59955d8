use super::{milliseconds_between, SummaryCollector};
use crate::window::Summary;

/// Collects the times between messages, in milliseconds.
///
/// A *high* average says that messages come too rarely or get lost; a *high* standard deviation that they come
/// irregularly, in bursts after a jam.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeriodCollector {
    periods: SummaryCollector,
    /// When the last message of this window arrived, in nanoseconds.
    last: Option<i64>,
}

impl PeriodCollector {
    /// Accepts a message whose callback starts at `now`, in nanoseconds on the system clock.
    ///
    /// The first message of a window yields no sample, as ROS 2's concept page "Topic statistics" has it. Nor
    /// does one that seems to come before the last: the clock was stepped backwards.
    #[inline]
    pub fn accept(&mut self, now: i64) {
        if let Some(last) = self.last.replace(now) {
            if now >= last {
                self.periods.accept(milliseconds_between(last, now));
            }
        }
    }

    /// Ends a window: returns its periods in milliseconds and starts anew.
    pub fn take(&mut self) -> Summary {
        std::mem::take(self).periods.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: i64 = 1_000_000;

    #[test]
    fn n_messages_make_n_minus_1_periods() {
        let mut periods = PeriodCollector::default();
        for message in 0..5 {
            periods.accept(1_790_000_000_000_000_000 + message * 10 * MILLISECOND);
        }
        let window = periods.take();
        assert_eq!((window.sample_count, window.average, window.standard_deviation), (4, 10.0, 0.0));
    }

    #[test]
    fn no_period_reaches_over_the_edge_of_a_window() {
        let mut periods = PeriodCollector::default();
        periods.accept(0);
        assert_eq!(periods.take().sample_count, 0);
        periods.accept(10 * MILLISECOND);
        assert_eq!(periods.take().sample_count, 0);
    }

    #[test]
    fn a_clock_stepped_backwards_yields_no_sample_and_spoils_no_other() {
        let mut periods = PeriodCollector::default();
        for now in [100, 110, 50, 60] {
            periods.accept(now * MILLISECOND);
        }
        let window = periods.take();
        assert_eq!((window.sample_count, window.minimum, window.maximum), (2, 10.0, 10.0));
    }
}
