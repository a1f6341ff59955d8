use super::{milliseconds_between, SummaryCollector};
use crate::window::Summary;

/// Collects the times between messages, in milliseconds.
///
/// A *high* average says that messages come too rarely or get lost; a *high* standard deviation that they come
/// irregularly, in bursts after a jam.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeriodCollector {
    periods: SummaryCollector,
    /// When the last message arrived, in nanoseconds; of this window, unless it is carried over.
    last: Option<i64>,
    first: FirstPeriod,
}

/// What the first message of a window does for the period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstPeriod {
    /// It yields no sample: n messages make n-1 periods, as ROS 2's concept page "Topic statistics" has it.
    #[default]
    NoSample,
    /// Its period is since the last message of a window before, as rclcpp has it in fact: a topic with a message a
    /// window or less has periods too.
    CarriedOver,
}

impl PeriodCollector {
    /// Creates a collector; [`PeriodCollector::default`] is one with [`FirstPeriod::NoSample`].
    pub fn new(first: FirstPeriod) -> Self {
        Self { first, ..Self::default() }
    }

    /// Accepts a message whose callback starts at `now`, in nanoseconds on the system clock.
    ///
    /// The first message ever yields no sample, the first of a window as [`FirstPeriod`] says. Nor does one that
    /// seems to come before the last: the clock was stepped backwards.
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
        if self.first == FirstPeriod::NoSample {
            self.last = None;
        }
        self.periods.take()
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
    fn a_period_is_carried_over_the_edge_if_it_is_asked_for() {
        let mut periods = PeriodCollector::new(FirstPeriod::CarriedOver);
        periods.accept(1_790_000_000_000_000_000);
        assert_eq!(periods.take().sample_count, 0);
        periods.accept(1_790_000_001_500_000_000);
        let window = periods.take();
        assert_eq!((window.sample_count, window.average), (1, 1500.0));
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
