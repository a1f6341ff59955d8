// SPDX-License-Identifier: Apache-2.0

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{source::SourceHandle, windowed::Collector};
use crate::{
    collector::single_sample,
    health::Health,
    sync::atomic::{AtomicU64, Ordering},
    window::{Distributions, Metric, Summary, WindowStatistics},
};

/// A named counter: how often something happens, as [`Metric::Frequency`].
///
/// Create one using [`NodeStatistics::counter`](crate::NodeStatistics::counter). It is a handle that can be cloned; dropping the
/// last clone ends its statistics. Counting is one atomic operation.
#[derive(Clone)]
pub struct StatsCounter(pub(crate) Arc<CounterState>);

pub(crate) struct CounterState {
    source: SourceHandle,
    count: Arc<AtomicU64>,
}

impl fmt::Debug for StatsCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsCounter").field("source_name", &self.source_name()).finish_non_exhaustive()
    }
}

/// The count since the window's start.
pub(crate) struct Count(pub(crate) Arc<AtomicU64>);

impl Collector for Count {
    /// There are none: it is counted without the lock.
    type Sample = std::convert::Infallible;

    const DISTRIBUTIONS: &'static [Metric] = &[];

    fn accept(&mut self, sample: &Self::Sample, _: &mut Distributions) {
        match *sample {}
    }

    fn take(&mut self, length: Duration, _has_earlier: bool) -> (u64, Vec<(Metric, Summary)>) {
        let count = self.0.swap(0, Ordering::Relaxed);
        // NaN if the window has no length.
        let frequency = single_sample(Some(count as f64 / length.as_secs_f64()));
        (count, vec![(Metric::Frequency, Summary { sample_count: count, ..frequency })])
    }

    fn measures(&self, metric: Metric) -> bool {
        metric == Metric::Frequency
    }

    fn clear(&mut self, _start: i64) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl StatsCounter {
    pub(crate) fn new(source: SourceHandle, count: Arc<AtomicU64>) -> Self {
        Self(Arc::new(CounterState { source, count }))
    }

    /// Adds 1.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.count.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the `measurement_source_name` of this counter's messages on `/statistics`.
    pub fn source_name(&self) -> &str {
        &self.0.source.name
    }

    /// Returns the last finished window; None before the first one.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.0.source.latest()
    }

    /// Returns a receiver of its health; see [`StatsSubscriptionState::health`](crate::StatsSubscriptionState::health).
    pub fn health(&self) -> watch::Receiver<Health> {
        self.0.source.health()
    }

    /// Returns a receiver of finished windows; see
    /// [`StatsSubscriptionState::watch`](crate::StatsSubscriptionState::watch).
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.0.source.watch()
    }
}

#[cfg(loom)]
pub(crate) mod models;
