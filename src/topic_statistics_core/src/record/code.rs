// SPDX-License-Identifier: Apache-2.0

//! The collectors that measure any code: the collector of a stopwatch and the collector of a counter.

use std::sync::Arc;

use crate::{
    collector::{single_sample, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    record::{
        clocks::clock::EndedWindow,
        sources::windowed::{Collector, Present},
    },
    source_kind::SourceKind,
    summary::Summary,
    sync::atomic::{AtomicU64, Ordering},
};

/// The collector of a stopwatch. Durations are in milliseconds.
#[derive(Debug, Default)]
pub struct Durations(SummaryCollector);

impl Collector for Durations {
    type Sample = f64;

    const KIND: SourceKind = SourceKind::Stopwatch;

    #[inline]
    fn accept(&mut self, milliseconds: &f64, _: Present, distributions: &mut Distributions) {
        if self.0.accept(*milliseconds) {
            distributions.accept(Metric::Duration, *milliseconds);
        }
    }

    fn take(&mut self, _: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        let summary = self.0.take();
        (summary.sample_count, vec![(Metric::Duration, summary)])
    }

    fn clear(&mut self, _: i64, _: bool) {
        *self = Self::default();
    }
}

/// A count of events since the start of the window. All clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Count(Arc<AtomicU64>);

impl Count {
    /// Adds `count` events.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

impl Collector for Count {
    /// A counter records no samples behind the lock, because its events are counted by an atomic.
    type Sample = std::convert::Infallible;

    const KIND: SourceKind = SourceKind::Counter;

    fn accept(&mut self, sample: &Self::Sample, _: Present, _: &mut Distributions) {
        match *sample {}
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        let count = self.0.swap(0, Ordering::Relaxed);
        // The frequency is NaN if the window has no length.
        let frequency = single_sample(Some(count as f64 / ended.length().as_secs_f64()));
        (count, vec![(Metric::Frequency, Summary { sample_count: count, ..frequency })])
    }

    fn clear(&mut self, _: i64, _: bool) {
        self.0.store(0, Ordering::Relaxed);
    }
}
