// SPDX-License-Identifier: Apache-2.0

//! The publishers, stopwatches and counters of the node, with their oracles.

use std::sync::Arc;

use topic_statistics_core::{
    collector::FirstPeriod,
    record::{
        clock::Clock,
        options::StatisticsState,
        source::{Source, WindowedCollector},
    },
    SourceKind,
};

use super::{
    sources::{DelayedScopeEnd, Scope, Watched},
    state::{Event, World},
};
use crate::{
    clocks::MS,
    delay::{Delay, Delayable, Step},
    equal::equal,
    faults::Fault,
    measured::Measured,
    oracle::{self, Kind},
};

impl World {
    pub fn add_scopes(&mut self) {
        let first_period = [FirstPeriod::NoSample, FirstPeriod::CarriedOver][self.random.usize(..2)];
        for (kind, of_oracle) in [
            (SourceKind::Publisher, Kind::Publisher(first_period)),
            (SourceKind::Stopwatch, Kind::Stopwatch),
            (SourceKind::Counter, Kind::Counter),
        ] {
            let (collector, measured) = Measured::new(kind, first_period, || unreachable!());
            let watched = self.watch(&kind.to_string(), collector, of_oracle);
            self.scopes.push(Scope { watched, measured });
        }
    }

    pub fn watch(&mut self, name: &str, collector: Arc<dyn WindowedCollector>, kind: Kind) -> Watched {
        let delayable = Delayable::new(collector, &self.clocks);
        let source = Arc::new(Source::new(format!("/node:{name}"), Arc::clone(&delayable) as _, None));
        let (state, now) = (StatisticsState::NodeDefault, self.instant(self.now));
        let publisher = Some(Arc::clone(&self.reader) as _);
        self.schedule.add(&source.collector, state.into(), publisher, now, &*self.clocks);
        self.schedule.complete(&source, now);
        let oracle = oracle::Other::new(kind, self.clocks.offset(), self.clocks.suspended());
        let _handle = self.handle(&source);
        Watched { source, state, oracle, delayable, delayed: None, _handle }
    }

    /// Publishes a message, starts a stopwatch, and counts events.
    pub fn run_scopes(&mut self) -> Result<(), String> {
        let takes = self.random.i64(1_000..2 * MS);
        let is_failing = self.plan.has(Fault::FailedPublication) && self.random.u32(..10) == 0;
        let counts = self.random.u64(..5);
        // A publishing thread is preempted while it holds the lock. During this time, another thread publishes.
        let is_preempted =
            !is_failing && self.plan.has(Fault::UnorderedPublication) && self.random.u32(..20) == 0;
        let (started, mut timed, mut failed, mut differs) = (self.now, None, 0, false);
        let clocks = Arc::clone(&self.clocks);
        for (index, scope) in self.scopes.iter_mut().enumerate() {
            match &scope.measured {
                Measured::Publisher(publisher) => {
                    let publish = || {
                        clocks.set_monotonic(started + takes);
                        if is_failing {
                            Err(())
                        } else {
                            Ok(())
                        }
                    };
                    let mut readings = 0;
                    let is_overtaken = is_preempted && scope.watched.oracle.is_enabled;
                    let clock = || {
                        readings += 1;
                        if is_overtaken && readings == 2 {
                            differs |= publisher
                                .measure(|| clocks.monotonic(), || Ok::<_, ()>(()), |()| 100)
                                .is_err();
                            clocks.set_monotonic(started + takes + 1_000);
                        }
                        clocks.monotonic()
                    };
                    let result = publisher.measure(clock, publish, |()| 100);
                    differs |= result.is_err() != is_failing;
                    let end = clocks.monotonic();
                    match is_failing {
                        true => failed += 1,
                        false => scope.watched.oracle.record(end, (end - started) as f64 / 1e6),
                    }
                    if is_overtaken {
                        self.tally.inject(Fault::UnorderedPublication);
                        scope.watched.oracle.record_unordered(started + takes, 0.0);
                    }
                }
                // The duration is recorded later by `end_stopwatch`, as the library's stopwatch does when its guard is
                // dropped.
                Measured::Stopwatch(stopwatch) => {
                    differs |= stopwatch.is_enabled() != scope.watched.oracle.is_enabled;
                    timed = scope.watched.oracle.is_enabled.then_some((index, started));
                }
                Measured::Counter(count) => {
                    count.add(counts);
                    scope.watched.oracle.add(counts);
                }
                Measured::Messages(_) => {}
            }
        }
        self.tally.inject_times(Fault::FailedPublication, failed);
        equal("whether a publication or the stopwatch differs", differs, false)?;
        self.pass();
        if let Some((scope, started)) = timed {
            let takes = self.random.i64(1_000..self.period * 2);
            let source = Arc::clone(&self.scopes[scope].watched.source);
            self.after(takes, Event::StopwatchEnd { source, started });
        }
        let next = self.random.i64(0..self.period / 2);
        self.after(next, Event::Scopes);
        Ok(())
    }

    /// Ends a duration of a stopwatch, possibly in a later window, or after the statistics were enabled or disabled.
    pub fn end_stopwatch(&mut self, source: &Arc<Source>, started: i64) {
        let Some(scope) = self.scopes.iter_mut().find(|scope| Arc::ptr_eq(&scope.watched.source, source))
        else {
            return;
        };
        let Measured::Stopwatch(stopwatch) = &scope.measured else { return };
        let milliseconds = (self.now - started) as f64 / 1e6;
        stopwatch.record(|| milliseconds);
        scope.watched.oracle.record(self.now, milliseconds);
    }

    /// Delays the next end of a window of a publisher, stopwatch or counter. During the delay at most 8 samples are
    /// recorded, because a ninth sample would block.
    pub fn delay_scope_end(&mut self) {
        if self.scopes.is_empty() {
            return;
        }
        let index = self.random.usize(..self.scopes.len());
        let scope = &mut self.scopes[index];
        if scope.watched.delayable.is_waiting() {
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
                    let (collector, clocks) = (Arc::clone(publisher), Arc::clone(&self.clocks));
                    Box::new(move |_| {
                        let _never_fails =
                            collector.measure(|| clocks.monotonic(), || Ok::<_, ()>(()), |()| 100);
                    })
                }
                Measured::Stopwatch(stopwatch) => {
                    let collector = Arc::clone(stopwatch);
                    Box::new(move |_| collector.record(|| time as f64))
                }
                Measured::Counter(count) => {
                    let count = count.clone();
                    Box::new(move |_| count.add(1))
                }
                Measured::Messages(_) => Box::new(|_| {}),
            };
            (time, step)
        };
        let (before, after) = times.iter().map(|time| step(*time)).partition(|(time, _)| *time < stop);
        let delay = Delay { before, stop, after, end: time + 5_000, at: self.random.u32(1..3) };
        scope.watched.delayable.delay_next_end(delay);
        scope.watched.delayed = Some(DelayedScopeEnd { stop, times });
    }

    pub fn drop_scope(&mut self) {
        if !self.scopes.is_empty() {
            self.scopes.remove(self.random.usize(..self.scopes.len()));
            self.remove_retired();
        }
    }
}
