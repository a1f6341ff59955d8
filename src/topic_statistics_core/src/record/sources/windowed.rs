// SPDX-License-Identifier: Apache-2.0

//! A collector that can be enabled and that has a lock, for every source except subscriptions.

use std::sync::Arc;

use super::source::{FinishedWindow, WindowedCollector};
use crate::{
    distributions::Distributions,
    executor::ExecutorWindow,
    metric::Metric,
    metric_set::MetricSet,
    record::{
        clocks::clock::{Clock, EndedWindow, HostClock, SystemClock, WindowClock},
        locks::{Accept, ConfirmOrder, WaitingLock},
    },
    source_kind::SourceKind,
    summary::Summary,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    window::WindowStatistics,
};

/// A collector that can be enabled and that has a lock.
pub struct Windowed<C: Collector> {
    is_enabled: AtomicBool,
    /// A copy of `State::epoch`. It is read without the lock.
    epoch: AtomicU32,
    /// Whether the windows that start from now on have distributions.
    has_distributions: AtomicBool,
    state: WaitingLock<State<C>>,
}

/// Collects the samples of one window after the other.
pub trait Collector: Send {
    /// The type of the recorded samples.
    type Sample: Send;

    /// The kind of the collector's source.
    const KIND: SourceKind;

    /// Accepts a sample, and adds it to the distributions of its metrics.
    fn accept(&mut self, sample: &Self::Sample, present: Present, distributions: &mut Distributions);

    /// Ends a window. Returns the number of events in the window, and the metrics with their summaries.
    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>);

    /// Returns whether the collector measures a metric.
    fn measures(&self, metric: Metric) -> bool {
        Self::KIND.measures(metric)
    }

    /// Returns what the threads of an executor ran in the window that [`take`](Self::take) has ended. Returns `None` if
    /// the source is not an executor.
    fn executor(&mut self) -> Option<Arc<ExecutorWindow>> {
        None
    }

    /// Discards all samples. The next window starts at the time `start`, in nanoseconds on the monotonic clock.
    /// `has_stepped` means that the system clock was stepped before this time, while the statistics were disabled.
    fn clear(&mut self, start: i64, has_stepped: bool);
}

/// The system clock and the epoch at the time when a sample is accepted. The epoch is a number that changes when the
/// statistics are enabled, and after each step of the system clock.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    pub(crate) system: SystemClock,
    pub(crate) epoch: u32,
}

#[cfg(test)]
impl Present {
    /// Returns the system clock of a test clock, with the number of the first epoch.
    pub(crate) fn of_test() -> Self {
        Self { system: SystemClock::now(&crate::record::test_clock::TestClock::new()), epoch: 1 }
    }
}

struct State<C> {
    is_enabled: bool,
    /// Whether the collector is disabled forever.
    has_ended: bool,
    /// As in [`Present`].
    epoch: u32,
    /// Whether a sample that was made before the last accepted sample may not have been accepted yet.
    has_earlier: bool,
    window: WindowClock,
    collector: C,
    distributions: Distributions,
}

impl<C: Collector> Accept for State<C> {
    type Sample = C::Sample;

    #[inline]
    fn accept(&mut self, sample: &C::Sample) {
        if self.is_enabled {
            let present = Present { system: self.window.system, epoch: self.epoch };
            self.collector.accept(sample, present, &mut self.distributions);
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
    /// Creates the collector in the disabled state.
    pub fn new(collector: C) -> Self {
        Self::with_clock(collector, &HostClock)
    }

    /// Creates the collector in the disabled state, with the given clock.
    pub fn with_clock(collector: C, clock: &dyn Clock) -> Self {
        let state = State {
            is_enabled: false,
            has_ended: false,
            epoch: 0,
            has_earlier: false,
            window: WindowClock::new(clock),
            collector,
            distributions: Distributions::default(),
        };
        Self {
            is_enabled: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            has_distributions: AtomicBool::new(false),
            state: WaitingLock::new(state),
        }
    }

    fn new_distributions(&self) -> Distributions {
        let metrics = if self.has_distributions.load(Ordering::Relaxed) { C::KIND.metrics() } else { &[] };
        Distributions::new(MetricSet::of(metrics))
    }

    /// Returns whether the collector is enabled.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Returns the epoch, as in [`Present`], of a message or sample that is taken now; `None` while the statistics are
    /// disabled. Timestamps that were taken in an earlier epoch may be from the system clock before its step.
    #[inline]
    pub fn epoch(&self) -> Option<u32> {
        self.is_enabled().then(|| self.epoch.load(Ordering::Relaxed))
    }

    /// Disables the collector forever: from now on, no sample is recorded. Returns whether the collector was enabled.
    pub fn disable_forever(&self) -> bool {
        let mut state = self.state.lock();
        state.has_ended = true;
        self.is_enabled.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.is_enabled)
    }

    /// Records a sample.
    #[inline]
    pub fn record(&self, sample: impl FnOnce() -> C::Sample) {
        self.state.record(sample);
    }

    fn start_epoch(&self, state: &mut State<C>) {
        state.epoch = state.epoch.wrapping_add(1);
        self.epoch.store(state.epoch, Ordering::Relaxed);
    }
}

impl<C: Collector> WindowedCollector for Windowed<C> {
    fn enable(&self, clock: &dyn Clock) -> bool {
        if self.is_enabled() {
            return false; // returns before any distributions are allocated
        }
        let distributions = self.new_distributions();
        let mut state = self.state.lock();
        let was_disabled = !state.is_enabled && !state.has_ended;
        if was_disabled {
            let (start, step) = state.window.restart(clock);
            state.collector.clear(start, step.is_some());
            self.start_epoch(&mut state);
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
        let mut ended = state.window.end(clock);
        ended.has_earlier = std::mem::take(&mut state.has_earlier) && self.state.awaits_samples();
        let (count, metrics) = state.collector.take(&ended);
        let executor = state.collector.executor();
        if ended.step.is_some() {
            self.start_epoch(&mut state);
        }
        let distributions = std::mem::replace(&mut state.distributions, distributions);
        drop(state);
        let statistics = WindowStatistics { executor, ..ended.statistics(count, metrics, distributions) };
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
