// SPDX-License-Identifier: Apache-2.0

//! The collectors of a timer.

use super::{measurements::Measurements, timer_schedule::ScheduledCall};
use crate::{
    collector::{milliseconds_between, single_sample, FirstPeriod},
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    record::{
        clocks::clock::EndedWindow,
        sources::{
            periods::Periods,
            windowed::{Collector, Present, Windowed},
        },
    },
    source_kind::SourceKind,
    summary::Summary,
};

/// The collectors of a timer.
#[derive(Debug)]
pub struct TimerCalls {
    measurements: Measurements,
    clock: TimerClock,
    /// The period of the timer in milliseconds.
    timer_period: f64,
    period: Periods,
    /// The number of periods that the timer skipped in this window; `None` if the number is unknown for at least one
    /// call.
    skipped: Option<u64>,
    count: u64,
    /// Whether the next call may have been scheduled before a step of the timer's clock.
    is_doubtful: bool,
}

/// The clock of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerClock {
    /// A steady clock, which is never stepped.
    Steady,
    /// The system clock.
    System,
    /// Simulated time, which may run so fast that the executor cannot run all callbacks in time.
    Simulated,
}

/// An event of a timer.
#[derive(Debug)]
pub enum TimerSample {
    /// A callback starts.
    Start {
        /// The start of the callback, in nanoseconds on the monotonic clock.
        time: i64,
        /// The lateness and the skipped periods of this call; `None` if the schedule is unknown.
        call: Option<ScheduledCall>,
    },
    /// A callback ends.
    End {
        /// The duration of the callback in milliseconds.
        milliseconds: f64,
    },
}

impl TimerCalls {
    /// Creates the collectors of `metrics` for a timer. `timer_period` is the timer's period in nanoseconds.
    pub fn new(metrics: MetricSet, first_period: FirstPeriod, clock: TimerClock, timer_period: i64) -> Self {
        Self {
            measurements: Measurements::new(Self::KIND.metrics(), metrics),
            clock,
            timer_period: timer_period as f64 / 1e6,
            period: Periods::new(Metric::TimerPeriod, first_period),
            skipped: Some(0),
            count: 0,
            is_doubtful: false,
        }
    }
}

impl Collector for TimerCalls {
    type Sample = TimerSample;

    const KIND: SourceKind = SourceKind::Timer;

    fn accept(&mut self, sample: &TimerSample, _: Present, distributions: &mut Distributions) {
        match *sample {
            TimerSample::Start { time, call } => {
                self.count += 1;
                self.period.accept(time, distributions);
                let is_doubtful = std::mem::take(&mut self.is_doubtful);
                let call = call.filter(|_| !is_doubtful);
                self.skipped = self.skipped.zip(call).map(|(skipped, call)| skipped + call.skipped);
                if let Some(ScheduledCall { lateness, .. }) = call {
                    self.measurements.add(Metric::TimerLateness, lateness as f64 / 1e6, distributions);
                }
            }
            TimerSample::End { milliseconds } => {
                self.measurements.add(Metric::CallbackDuration, milliseconds, distributions);
                if self.clock != TimerClock::Simulated {
                    // If the period is 0, the share is infinite, and the sample is ignored.
                    let share = 100.0 * milliseconds / self.timer_period;
                    self.measurements.add(Metric::CallbackShare, share, distributions);
                }
            }
        }
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        let mut skipped = self.skipped.replace(0);
        if ended.step.is_some() && self.clock == TimerClock::System {
            self.measurements.discard(Metric::TimerLateness);
            (skipped, self.is_doubtful) = (None, true);
        }
        let others = [
            self.period.take(ended.has_earlier),
            (Metric::SkippedPeriods, single_sample(skipped.map(|skipped| skipped as f64))),
        ];
        (std::mem::take(&mut self.count), self.measurements.take(&others))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.measurements.measures(metric)
    }

    fn clear(&mut self, start: i64, has_stepped: bool) {
        self.period.clear(start);
        self.measurements.clear();
        (self.skipped, self.count) = (Some(0), 0);
        self.is_doubtful = has_stepped && self.clock == TimerClock::System;
    }
}

/// A callback of a timer that is running.
#[derive(Clone, Copy, Debug)]
pub struct RunningTimerCallback {
    /// The start of the callback, in nanoseconds on the monotonic clock.
    started: i64,
}

impl Windowed<TimerCalls> {
    /// Records that a callback starts now, at the time that `clock` returns.
    #[inline]
    pub fn start(&self, call: Option<ScheduledCall>, clock: impl FnOnce() -> i64) -> RunningTimerCallback {
        let mut started = 0;
        self.record(|| {
            started = clock();
            TimerSample::Start { time: started, call }
        });
        RunningTimerCallback { started }
    }

    /// Records that the callback ends at the time `now` of the monotonic clock.
    #[inline]
    pub fn end(&self, callback: RunningTimerCallback, now: i64) {
        let milliseconds = milliseconds_between(callback.started, now);
        self.record(|| TimerSample::End { milliseconds });
    }
}

#[cfg(test)]
mod tests;
