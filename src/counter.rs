// SPDX-License-Identifier: Apache-2.0

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    measured::{single_sample, Collect, Measured},
    window::{Metric, Summary, WindowStatistics},
};

/// A named counter: how often something happens, as [`Metric::Frequency`].
///
/// Create one using [`NodeStatistics::counter`](crate::NodeStatistics::counter). It is a handle that can be cloned; the
/// counter leaves the statistics when the last clone is dropped. To count takes one atomic operation.
#[derive(Clone)]
pub struct StatsCounter(pub(crate) Arc<CounterState>);

pub(crate) struct CounterState {
    count: Arc<AtomicU64>,
    measured: Arc<Measured>,
}

/// What was counted since the window's start.
pub(crate) struct Count(pub(crate) Arc<AtomicU64>);

impl Collect for Count {
    /// It is counted without the lock.
    type Sample = std::convert::Infallible;

    fn accept(&mut self, sample: &Self::Sample) {
        match *sample {}
    }

    fn take(&mut self, length: Duration) -> (u64, Vec<(Metric, Summary)>) {
        let count = self.0.swap(0, Ordering::Relaxed);
        // Not a number if the window has no length.
        let frequency = single_sample(Some(count as f64 / length.as_secs_f64()));
        (count, vec![(Metric::Frequency, Summary { sample_count: count, ..frequency })])
    }

    fn clear(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Drop for CounterState {
    fn drop(&mut self) {
        self.measured.leave();
    }
}

impl StatsCounter {
    pub(crate) fn new(count: Arc<AtomicU64>, measured: Arc<Measured>) -> Self {
        Self(Arc::new(CounterState { count, measured }))
    }

    /// Counts one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts that many.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.count.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns what the messages on `/statistics` call this counter: their `measurement_source_name`.
    pub fn source_name(&self) -> &str {
        &self.0.measured.source
    }

    /// Returns the last window that was finished; None before there is one.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.0.measured.latest()
    }

    /// Returns a receiver of the windows as they are finished; see
    /// [`StatsSubscriptionState::watch`](crate::StatsSubscriptionState::watch).
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.0.measured.watch()
    }
}
