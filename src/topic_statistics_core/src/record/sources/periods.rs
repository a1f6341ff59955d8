// SPDX-License-Identifier: Apache-2.0

//! Measures the periods of events that several threads may record.

use crate::{
    collector::{FirstPeriod, PeriodCollector},
    distributions::Distributions,
    metric::Metric,
    summary::Summary,
};

/// Measures the periods of events that several threads may record.
///
/// A thread may be preempted between an event and the recording of the event. Then the event is recorded after later
/// events, and its period is wrong. So a window with such an event has no periods.
#[derive(Debug)]
pub(crate) struct Periods {
    metric: Metric,
    first_period: FirstPeriod,
    period: PeriodCollector,
    /// The time of the latest event, in nanoseconds on the monotonic clock.
    last: i64,
    last_before: i64,
    /// Whether an event of this window was recorded after a later event.
    is_unordered: bool,
}

impl Periods {
    pub(crate) fn new(metric: Metric, first_period: FirstPeriod) -> Self {
        let period = PeriodCollector::new(first_period);
        Self { metric, first_period, period, last: i64::MIN, last_before: i64::MIN, is_unordered: false }
    }

    #[inline]
    pub(crate) fn accept(&mut self, time: i64, distributions: &mut Distributions) {
        if time >= self.last {
            self.last = time;
            if let Some(period) = self.period.sample(time) {
                distributions.accept(self.metric, period);
            }
            self.period.accept(time);
        } else if time >= self.last_before {
            self.is_unordered = true;
        } // an earlier time is of the previous window, which has no periods because this event was missing
    }

    /// Ends a window. `has_earlier` means that an event before the last recorded event may not have been recorded yet.
    pub(crate) fn take(&mut self, has_earlier: bool) -> (Metric, Summary) {
        let periods = self.period.take();
        self.last_before = self.last;
        let is_unordered = std::mem::take(&mut self.is_unordered) || has_earlier;
        (self.metric, if is_unordered { Summary::default() } else { periods })
    }

    /// Discards all events. The next window starts at the time `start`.
    pub(crate) fn clear(&mut self, start: i64) {
        *self = Self { last: start, last_before: start, ..Self::new(self.metric, self.first_period) };
    }
}

/// Returns whether the periods are the times between events that follow each other. `times` are the times of all
/// events in nanoseconds, in order.
#[cfg(test)]
pub(crate) fn are_of_a_run(periods: &Summary, times: &[i64]) -> bool {
    let count = periods.sample_count as usize;
    let nanoseconds = |milliseconds: f64| (milliseconds * 1e6).round() as i64;
    count == 0
        || times.windows(count + 1).any(|run| {
            let of_run = || run.windows(2).map(|pair| pair[1] - pair[0]);
            nanoseconds(periods.average * count as f64) == run[count] - run[0]
                && of_run().min() == Some(nanoseconds(periods.minimum))
                && of_run().max() == Some(nanoseconds(periods.maximum))
        })
}
