// SPDX-License-Identifier: Apache-2.0

//! A collector behind a switch and a lock: of publishers, stopwatches and counters.

use std::time::Duration;

use super::{
    clock::{Clock, HostClock, WindowClock},
    sample_lock::{Accept, ConfirmOrder, WaitingLock},
    source::{FinishedWindow, WindowedCollector},
};
use crate::{
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    source_kind::SourceKind,
    summary::Summary,
    sync::atomic::{AtomicBool, Ordering},
    timestamp::ClockStep,
    window::WindowStatistics,
};

/// A collector behind a switch and a lock, with the window under way.
pub struct Windowed<C: Collector> {
    is_enabled: AtomicBool,
    /// Whether the windows that start from now on have distributions.
    has_distributions: AtomicBool,
    state: WaitingLock<State<C>>,
}

/// Collects the samples of one window after the other.
pub trait Collector: Send {
    /// What is recorded.
    type Sample: Send;

    /// The kind of its source.
    const KIND: SourceKind;

    /// The metrics that can have a distribution.
    const DISTRIBUTIONS: MetricSet;

    /// Accepts a sample, also in the distributions of its metrics.
    fn accept(&mut self, sample: &Self::Sample, distributions: &mut Distributions);

    /// Ends a window of this length. Returns the count and the metrics.
    ///
    /// `has_earlier`: there may be a sample that was made before the last one and is not accepted yet.
    fn take(&mut self, length: Duration, has_earlier: bool) -> (u64, Vec<(Metric, Summary)>);

    /// Returns whether it measures a metric.
    fn measures(&self, metric: Metric) -> bool {
        Self::KIND.measures(metric)
    }

    /// Forgets all samples. The next window starts at that time, in nanoseconds on the monotonic clock.
    fn clear(&mut self, start: i64);
}

struct State<C> {
    is_enabled: bool,
    /// Whether there may be a sample that was made before the last one and is not accepted yet.
    has_earlier: bool,
    window: WindowClock,
    collector: C,
    /// Of this window.
    distributions: Distributions,
}

impl<C: Collector> Accept for State<C> {
    type Sample = C::Sample;

    #[inline]
    fn accept(&mut self, sample: &C::Sample) {
        if self.is_enabled {
            self.collector.accept(sample, &mut self.distributions);
            self.has_earlier = true;
        }
    }
}

impl<C: Collector> ConfirmOrder for State<C> {
    #[inline]
    fn confirm_order(&mut self) {
        self.has_earlier = false;
    }
}

impl<C: Collector> Windowed<C> {
    /// Creates it disabled.
    pub fn new(collector: C) -> Self {
        let window = WindowClock::new(&HostClock);
        let distributions = Distributions::default();
        let state = State { is_enabled: false, has_earlier: false, window, collector, distributions };
        Self {
            is_enabled: AtomicBool::new(false),
            has_distributions: AtomicBool::new(false),
            state: WaitingLock::new(state),
        }
    }

    /// Returns the distributions of a window that starts; none if they are not enabled.
    fn new_distributions(&self) -> Distributions {
        let metrics = self.has_distributions.load(Ordering::Relaxed).then_some(C::DISTRIBUTIONS);
        Distributions::new(metrics.unwrap_or_default())
    }

    /// Returns whether it is enabled.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Records a sample.
    #[inline]
    pub fn record(&self, sample: impl FnOnce() -> C::Sample) {
        self.state.record(sample);
    }
}

impl<C: Collector> WindowedCollector for Windowed<C> {
    fn enable(&self, clock: &dyn Clock) -> bool {
        if self.is_enabled() {
            return false; // without distributions that nobody needs
        }
        let distributions = self.new_distributions();
        let mut state = self.state.lock();
        let was_disabled = !state.is_enabled;
        if was_disabled {
            let (start, _no_stamps_are_compared) = state.window.restart(clock);
            state.collector.clear(start);
            state.distributions = distributions;
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

    fn set_distributions(&self, enabled: bool) {
        self.has_distributions.store(enabled, Ordering::Relaxed);
    }

    fn end_window(&self, clock: &dyn Clock) -> Option<FinishedWindow> {
        let distributions = self.new_distributions();
        let mut state = self.state.lock();
        if !state.is_enabled {
            return None;
        }
        let ended = state.window.end(clock);
        let has_earlier = std::mem::take(&mut state.has_earlier) && self.state.awaits_samples();
        let (count, metrics) = state.collector.take(ended.length(), has_earlier);
        let distributions = std::mem::replace(&mut state.distributions, distributions);
        drop(state);
        let statistics = WindowStatistics {
            window: ended.window,
            length: ended.length(),
            clock_step: ended.step.map(|step| ClockStep::from_nanoseconds(step.by)),
            count,
            is_count_known: true,
            unstamped: false,
            without_clock: false,
            unrecorded: 0,
            distributions: distributions.of_window(&metrics),
            metrics,
            totals: None,
        };
        Some(FinishedWindow { statistics, clock_offset: ended.clock_offset(), warnings: vec![] })
    }

    fn kind(&self) -> SourceKind {
        C::KIND
    }

    fn measures(&self, metric: Metric) -> bool {
        self.state.lock().collector.measures(metric)
    }
}

opaque_debug!(Windowed<C: Collector>);

#[cfg(all(test, topic_statistics_loom))]
mod models;
