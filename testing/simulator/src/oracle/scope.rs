// SPDX-License-Identifier: Apache-2.0

//! The oracle of a publisher, a stopwatch or a counter of the node.

use topic_statistics_core::{collector::FirstPeriod, Metric};

use super::{milliseconds, Expected, Window, WindowTimes};

/// The kind of source measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Kind {
    Publisher(FirstPeriod),
    Stopwatch,
    #[default]
    Counter,
}

/// The oracle of a publisher, a stopwatch or a counter of the node.
#[derive(Default)]
pub struct Scope {
    kind: Kind,
    times: WindowTimes,
    is_enabled: bool,
    /// The end of each publication or duration on the monotonic clock, and its duration in milliseconds.
    samples: Vec<(i64, f64)>,
    /// The end of the last publication in the windows before.
    carried: Option<i64>,
    /// Whether a publication of this window was recorded after a later one.
    is_unordered: bool,
    /// Whether the last publication of this window waited for the lock: earlier ones may be missing until another one
    /// has the lock.
    has_waited: bool,
    count: u64,
}

impl Scope {
    pub fn new(kind: Kind, offset: i64, suspended: i64) -> Self {
        Self { kind, times: WindowTimes::new(offset, suspended), ..Self::default() }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    pub fn enable(&mut self, now: i64, offset: i64, suspended: i64) {
        if std::mem::replace(&mut self.is_enabled, true) {
            return;
        }
        let _no_stamps_are_compared = self.times.restart(now, offset, suspended);
        self.samples.clear();
        (self.carried, self.is_unordered, self.count) = (None, false, 0);
        self.has_waited = false;
    }

    /// Sets whether the windows from the next one on have distributions.
    pub fn set_distributions(&mut self, enabled: bool) {
        self.times.set_distributions(enabled);
    }

    pub fn disable(&mut self) {
        self.is_enabled = false;
    }

    /// A publication or a duration ends.
    pub fn record(&mut self, end: i64, milliseconds: f64) {
        if self.is_enabled {
            self.samples.push((end, milliseconds));
            self.has_waited = false;
        }
    }

    /// A publication or a duration ends while another thread holds the lock.
    pub fn record_waiting(&mut self, end: i64, milliseconds: f64) {
        self.record(end, milliseconds);
        self.has_waited = self.is_enabled;
    }

    /// A publication is recorded after a later one.
    pub fn record_unordered(&mut self, end: i64, milliseconds: f64) {
        self.record_waiting(end, milliseconds);
        self.is_unordered = true;
    }

    /// Something is counted.
    pub fn add(&mut self, count: u64) {
        self.count += count;
    }

    /// Ends the window, and returns what the oracle knows about it. `others_wait`: other publications wait for the lock
    /// meanwhile.
    pub fn end_window(&mut self, now: i64, offset: i64, suspended: i64, others_wait: bool) -> Window {
        let window = self.times.end(now, offset, suspended);
        let samples = std::mem::take(&mut self.samples);
        let count = std::mem::take(&mut self.count) + samples.len() as u64;
        let durations = Expected::Samples(samples.iter().map(|(_, milliseconds)| *milliseconds).collect());
        let metrics = match self.kind {
            Kind::Publisher(first_period) => {
                let ends: Vec<i64> =
                    self.carried.into_iter().chain(samples.iter().map(|(end, _)| *end)).collect();
                // By docs/code.md.
                let may_miss = std::mem::take(&mut self.has_waited) && others_wait;
                let periods = match std::mem::take(&mut self.is_unordered) || may_miss {
                    true => vec![],
                    false => ends.windows(2).map(|pair| milliseconds(pair[1] - pair[0])).collect(),
                };
                self.carried =
                    ends.iter().max().copied().filter(|_| first_period == FirstPeriod::CarriedOver);
                vec![
                    (Metric::PublishPeriod, Expected::Samples(periods)),
                    (Metric::PublishDuration, durations),
                    // All have the same size.
                    (Metric::MessageSize, Expected::Samples(vec![100.0; samples.len()])),
                ]
            }
            Kind::Stopwatch => vec![(Metric::Duration, durations)],
            Kind::Counter => {
                vec![(Metric::Frequency, Expected::Frequency { count, length: now - window.start })]
            }
        };
        Window { count: Some(count), metrics, ..window }
    }
}
