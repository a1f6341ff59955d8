// SPDX-License-Identifier: Apache-2.0

//! A collector behind a switch and a lock: of publishers, timers and counters.

use std::time::Duration;

use super::{
    clock::{Clock, HostClock, WindowClock},
    sample_lock::{Accept, SampleLock},
    source::{FinishedWindow, WindowedCollector},
};
use crate::{
    sync::atomic::{AtomicBool, Ordering},
    window::{Metric, Summary, WindowStatistics},
};

/// A collector behind a switch and a lock, with the window under way.
pub(crate) struct Windowed<C: Collector> {
    is_enabled: AtomicBool,
    state: SampleLock<State<C>>,
}

/// What collects the samples of one window after the other.
pub(crate) trait Collector: Send {
    type Sample: Send;

    /// Accepts a sample.
    fn accept(&mut self, sample: &Self::Sample);

    /// Ends a window of that length. Returns how much was counted, and the metrics.
    fn take(&mut self, length: Duration) -> (u64, Vec<(Metric, Summary)>);

    /// Forgets all samples.
    fn clear(&mut self);
}

struct State<C> {
    is_enabled: bool,
    window: WindowClock,
    collector: C,
}

impl<C: Collector> Accept for State<C> {
    type Sample = C::Sample;

    #[inline]
    fn accept(&mut self, sample: &C::Sample) {
        if self.is_enabled {
            self.collector.accept(sample);
        }
    }

    /// Never called: [`SampleLock::record`] waits where the queue is full.
    fn accept_unrecorded(&mut self, _count: u64) {}
}

impl<C: Collector> Windowed<C> {
    /// Creates it disabled.
    pub(crate) fn new(collector: C) -> Self {
        let state = State { is_enabled: false, window: WindowClock::new(&HostClock), collector };
        Self { is_enabled: AtomicBool::new(false), state: SampleLock::new(state) }
    }

    /// Returns whether it is enabled.
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Records a sample.
    #[inline]
    pub(crate) fn record(&self, sample: impl FnOnce() -> C::Sample) {
        self.state.record(sample);
    }
}

impl<C: Collector> WindowedCollector for Windowed<C> {
    fn enable(&self, clock: &dyn Clock) -> bool {
        let mut state = self.state.lock();
        let was_disabled = !state.is_enabled;
        if was_disabled {
            let _no_stamps_are_compared = state.window.restart(clock);
            state.collector.clear();
            state.is_enabled = true;
            self.is_enabled.store(true, Ordering::Relaxed);
        }
        was_disabled
    }

    fn disable(&self) {
        let mut state = self.state.lock();
        state.is_enabled = false;
        self.is_enabled.store(false, Ordering::Relaxed);
    }

    fn is_enabled(&self) -> bool {
        self.is_enabled()
    }

    fn end_window(&self, clock: &dyn Clock) -> Option<FinishedWindow> {
        let mut state = self.state.lock();
        if !state.is_enabled {
            return None;
        }
        let ended = state.window.end(clock);
        let (count, metrics) = state.collector.take(ended.length());
        drop(state);
        let statistics = WindowStatistics {
            window: ended.window,
            length: ended.length(),
            clock_step: ended.step.map(|step| step.by),
            count,
            unrecorded: 0,
            metrics,
            totals: None,
        };
        Some(FinishedWindow { statistics, clock_offset: ended.clock_offset(), warnings: vec![] })
    }
}

#[cfg(loom)]
pub(crate) mod models;
