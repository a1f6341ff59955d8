// SPDX-License-Identifier: Apache-2.0

//! The collector of a stopwatch.

use super::windowed::{Collector, Present, WindowEnd};
use crate::{
    collector::SummaryCollector, distributions::Distributions, metric::Metric, metric_set::MetricSet,
    source_kind::SourceKind, summary::Summary,
};

/// The collector of a stopwatch, in milliseconds.
#[derive(Debug, Default)]
pub struct Durations(SummaryCollector);

impl Collector for Durations {
    type Sample = f64;

    const KIND: SourceKind = SourceKind::Stopwatch;

    const DISTRIBUTIONS: MetricSet = MetricSet::of(&[Metric::Duration]);

    #[inline]
    fn accept(&mut self, milliseconds: &f64, _: Present, distributions: &mut Distributions) {
        if self.0.accept(*milliseconds) {
            distributions.accept(Metric::Duration, *milliseconds);
        }
    }

    fn take(&mut self, _: &WindowEnd) -> (u64, Vec<(Metric, Summary)>) {
        let summary = self.0.take();
        (summary.sample_count, vec![(Metric::Duration, summary)])
    }

    fn clear(&mut self, _: i64, _: bool) {
        *self = Self::default();
    }
}
