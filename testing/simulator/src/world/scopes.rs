// SPDX-License-Identifier: Apache-2.0

//! The publishers, stopwatches and counters of the node, with their oracles.

use std::sync::Arc;

use topic_statistics_core::{
    collector::FirstPeriod,
    record::{
        clock::Clock,
        count::Count,
        durations::Durations,
        options::TopicStatisticsState,
        publications::Publications,
        source::{Source, SourceHandle, WindowedCollector},
        windowed::{Collector, Windowed},
    },
};

use super::state::{Event, World};
use crate::{
    clocks::{HostClocks, MS},
    faults::Fault,
    held::{Hold, Holdable, Step},
    oracle::{self, Kind},
};

impl World {
    pub fn add_scopes(&mut self) {
        let first_period = [FirstPeriod::NoSample, FirstPeriod::CarriedOver][self.random.usize(..2)];
        for kind in [Kind::Publisher(first_period), Kind::Stopwatch, Kind::Counter] {
            self.add_scope(kind);
        }
    }

    fn add_scope(&mut self, kind: Kind) {
        let source = |name: &str, collector: Arc<dyn WindowedCollector>| {
            Arc::new(Source::new(format!("/node:{name}"), collector, None))
        };
        let (source, measured) = match kind {
            Kind::Publisher(first_period) => {
                let ends = Ends::new(&self.clocks, Publications::new(first_period, true));
                let source = source("publisher", Arc::clone(&ends.holdable) as _);
                (source, Measured::Publisher(ends))
            }
            Kind::Stopwatch => {
                let ends = Ends::new(&self.clocks, Durations::default());
                let source = source("stopwatch", Arc::clone(&ends.holdable) as _);
                (source, Measured::Stopwatch(ends))
            }
            Kind::Counter => {
                let count = Count::default();
                let Ends { holdable, .. } = Ends::new(&self.clocks, count.clone());
                let source = source("counter", Arc::clone(&holdable) as _);
                (source, Measured::Counter(holdable, count))
            }
        };
        let state = TopicStatisticsState::NodeDefault;
        let publisher = Some(Arc::clone(&self.reader) as _);
        let now = self.instant(self.now);
        self.schedule.add(&source.collector, state.into(), publisher, now, &*self.clocks);
        self.schedule.complete(&source, now);
        let oracle = oracle::Scope::new(kind, self.clocks.offset(), self.clocks.suspended());
        let _handle = self.handle(&source);
        self.scopes.push(Scope { source, state, oracle, held: None, measured, _handle });
    }

    /// The node publishes, starts a duration, and counts.
    pub fn run_scopes(&mut self) {
        let takes = self.random.i64(1_000..2 * MS);
        let is_failing = self.plan.has(Fault::FailedPublication) && self.random.u32(..10) == 0;
        let counts = self.random.u64(..5);
        // A thread that publishes is preempted under the lock, while another one publishes.
        let is_preempted =
            !is_failing && self.plan.has(Fault::UnorderedPublication) && self.random.u32(..20) == 0;
        let (started, mut timed, mut failed, mut differs) = (self.now, None, 0, false);
        let clocks = Arc::clone(&self.clocks);
        for (index, scope) in self.scopes.iter_mut().enumerate() {
            match &scope.measured {
                Measured::Publisher(publisher) => {
                    let publish = || {
                        clocks.set_monotonic(started + takes);
                        match is_failing {
                            true => Err(()),
                            false => Ok(()),
                        }
                    };
                    let mut readings = 0;
                    let is_overtaken = is_preempted && scope.oracle.is_enabled();
                    let clock = || {
                        readings += 1;
                        if is_overtaken && readings == 3 {
                            differs |= publisher
                                .collector
                                .measure(|| clocks.monotonic(), || Ok::<_, ()>(()), |()| 100)
                                .is_err();
                            clocks.set_monotonic(started + takes + 1_000);
                        }
                        clocks.monotonic()
                    };
                    let result = publisher.collector.measure(clock, publish, |()| 100);
                    differs |= result.is_err() != is_failing;
                    let end = clocks.monotonic();
                    match is_failing {
                        true => failed += 1,
                        false => scope.oracle.record(end, takes as f64 / 1e6),
                    }
                    if is_overtaken {
                        self.tally.inject(Fault::UnorderedPublication);
                        scope.oracle.record_unordered(started + takes, 0.0);
                    }
                }
                // As a guard does.
                Measured::Stopwatch(stopwatch) => {
                    differs |= stopwatch.collector.is_enabled() != scope.oracle.is_enabled();
                    timed = scope.oracle.is_enabled().then_some((index, started));
                }
                Measured::Counter(_, count) => {
                    count.add(counts);
                    scope.oracle.add(counts);
                }
            }
        }
        self.tally.inject_times(Fault::FailedPublication, failed);
        if differs {
            self.fail("a publication or the stopwatch is not as the oracle's".to_owned());
        }
        self.pass();
        if let Some((scope, started)) = timed {
            let takes = self.random.i64(1_000..self.period * 2);
            let source = Arc::clone(&self.scopes[scope].source);
            self.after(takes, Event::StopwatchEnd { source, started });
        }
        let next = self.random.i64(0..self.period / 2);
        self.after(next, Event::Scopes);
    }

    /// A duration ends, in any window and after any switching of the statistics.
    pub fn end_stopwatch(&mut self, source: &Arc<Source>, started: i64) {
        let Some(scope) = self.scopes.iter_mut().find(|scope| Arc::ptr_eq(&scope.source, source)) else {
            return;
        };
        let Measured::Stopwatch(stopwatch) = &scope.measured else { return };
        let milliseconds = (self.now - started) as f64 / 1e6;
        stopwatch.collector.record(|| milliseconds);
        scope.oracle.record(self.now, milliseconds);
    }

    /// Delays the next end of a window of a publisher, stopwatch or counter. Up to 8 samples wait meanwhile; more would
    /// wait for the lock.
    pub fn hold_scope(&mut self) {
        if self.scopes.is_empty() {
            return;
        }
        let index = self.random.usize(..self.scopes.len());
        let scope = &mut self.scopes[index];
        if scope.entered().1 {
            return;
        }
        let mut times = vec![];
        let mut time = 0;
        for _ in 0..self.random.usize(1..=8) {
            time += self.random.i64(1_000..MS);
            times.push(time);
        }
        let stop = self.random.i64(0..=time);
        let step = |time: i64| -> (i64, Step) {
            let step: Step = match &scope.measured {
                Measured::Publisher(publisher) => {
                    let (collector, clocks) = (Arc::clone(&publisher.collector), Arc::clone(&self.clocks));
                    Box::new(move |_| {
                        let _never_fails =
                            collector.measure(|| clocks.monotonic(), || Ok::<_, ()>(()), |()| 100);
                    })
                }
                Measured::Stopwatch(stopwatch) => {
                    let collector = Arc::clone(&stopwatch.collector);
                    Box::new(move |_| collector.record(|| time as f64))
                }
                Measured::Counter(_, count) => {
                    let count = count.clone();
                    Box::new(move |_| count.add(1))
                }
            };
            (time, step)
        };
        let (before, after) = times.iter().map(|time| step(*time)).partition(|(time, _)| *time < stop);
        let hold = Hold { before, stop, after, end: time + 5_000, at: self.random.u32(1..3) };
        match &scope.measured {
            Measured::Publisher(publisher) => publisher.holdable.hold(hold),
            Measured::Stopwatch(stopwatch) => stopwatch.holdable.hold(hold),
            Measured::Counter(counter, ..) => counter.hold(hold),
        }
        scope.held = Some(HeldScope { stop, times });
    }

    pub fn drop_scope(&mut self) {
        if !self.scopes.is_empty() {
            self.scopes.remove(self.random.usize(..self.scopes.len()));
            self.remove_retired();
        }
    }
}

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
