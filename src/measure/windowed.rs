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
    ///
    /// `has_earlier`: there may be a sample that was made before the last one and is not accepted yet.
    fn take(&mut self, length: Duration, has_earlier: bool) -> (u64, Vec<(Metric, Summary)>);

    /// Forgets all samples. The next window starts at that time, in nanoseconds on the monotonic clock.
    fn clear(&mut self, start: i64);
}

struct State<C> {
    is_enabled: bool,
    /// Whether there may be a sample that was made before the last one and is not accepted yet.
    has_earlier: bool,
    window: WindowClock,
    collector: C,
}

impl<C: Collector> Accept for State<C> {
    type Sample = C::Sample;

    #[inline]
    fn accept(&mut self, sample: &C::Sample) {
        if self.is_enabled {
            self.collector.accept(sample);
            self.has_earlier = true;
        }
    }

    #[inline]
    fn confirm_order(&mut self) {
        self.has_earlier = false;
    }

    /// Never called: [`SampleLock::record`] waits where the queue is full.
    fn accept_unrecorded(&mut self, _count: u64) {}
}

impl<C: Collector> Windowed<C> {
    /// Creates it disabled.
    pub(crate) fn new(collector: C) -> Self {
        let window = WindowClock::new(&HostClock);
        let state = State { is_enabled: false, has_earlier: false, window, collector };
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
            let (start, _no_stamps_are_compared) = state.window.restart(clock);
            state.collector.clear(start);
            state.has_earlier = false;
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
        let has_earlier = std::mem::take(&mut state.has_earlier) && self.state.awaits_samples();
        let (count, metrics) = state.collector.take(ended.length(), has_earlier);
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
