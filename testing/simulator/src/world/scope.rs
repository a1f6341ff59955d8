// SPDX-License-Identifier: Apache-2.0

//! A publisher, a stopwatch or a counter of the node, with its oracle.

use std::sync::Arc;

use topic_statistics_core::record::{
    count::Count,
    durations::Durations,
    options::TopicStatisticsState,
    publications::Publications,
    source::{Source, SourceHandle},
    windowed::{Collector, Windowed},
};

use crate::{
    clocks::HostClocks,
    held::Holdable,
    oracle::{self, Kind},
};

/// A publisher, a stopwatch or a counter.
pub struct Scope {
    pub source: Arc<Source>,
    pub state: TopicStatisticsState,
    pub oracle: oracle::Scope,
    pub held: Option<HeldScope>,
    pub measured: Measured,
    /// Its drop ends the source.
    pub _handle: SourceHandle,
}

/// The recorder.
pub enum Measured {
    Publisher(Ends<Publications>),
    Stopwatch(Ends<Durations>),
    Counter(Arc<Holdable<Windowed<Count>>>, Count),
}

pub struct Ends<C: Collector> {
    pub collector: Arc<Windowed<C>>,
    pub holdable: Arc<Holdable<Windowed<C>>>,
}

/// The events while the next end of a window is delayed. Times are since the start of the delay.
pub struct HeldScope {
    pub stop: i64,
    pub times: Vec<i64>,
}

impl Scope {
    /// Returns when the last end of a window began, on the monotonic clock; and whether the next one is to be delayed.
    pub fn entered(&self) -> (i64, bool) {
        match &self.measured {
            Measured::Publisher(publisher) => (publisher.holdable.entered(), publisher.holdable.is_waiting()),
            Measured::Stopwatch(stopwatch) => (stopwatch.holdable.entered(), stopwatch.holdable.is_waiting()),
            Measured::Counter(counter, ..) => (counter.entered(), counter.is_waiting()),
        }
    }
}

impl<C: Collector + 'static> Ends<C> {
    pub fn new(clocks: &Arc<HostClocks>, collector: C) -> Self {
        let collector = Arc::new(Windowed::new(collector));
        let holdable = Arc::new(Holdable::new(Arc::clone(&collector), Arc::clone(clocks)));
        Self { collector, holdable }
    }
}

impl Scope {
    /// Ends the oracle's window, perhaps with a delay.
    pub fn end_window(&mut self, offset: i64, suspended: i64) -> oracle::Window {
        let (entered, is_waiting) = self.entered();
        let held = if is_waiting { None } else { self.held.take() };
        let Some(HeldScope { stop, times }) = held else {
            return self.oracle.end_window(entered, offset, suspended, false);
        };
        if self.oracle.kind() == Kind::Counter {
            self.oracle.add(times.len() as u64); // counted before the window's count is taken
            return self.oracle.end_window(entered + stop, offset, suspended, true);
        }
        let window = self.oracle.end_window(entered + stop, offset, suspended, true);
        // By docs/reliability.md: a duration that ends while a window is being ended belongs to the next one.
        for time in times {
            match self.oracle.kind() {
                Kind::Publisher(_) => self.oracle.record_waiting(entered + time, 0.0),
                _ => self.oracle.record(entered + time, time as f64),
            }
        }
        window
    }
}
