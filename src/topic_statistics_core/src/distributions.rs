// SPDX-License-Identifier: Apache-2.0

//! The distributions of several metrics.

use crate::{collector::Distribution, metric::Metric, metric_set::MetricSet, summary::Summary};

/// The distributions of the samples of one or more windows, one for each metric that has a distribution. The default is
/// empty.
///
/// A subscription that measures no distributions still has a few values of this type, so an empty value takes only as
/// much memory as a pointer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distributions(Option<Box<List>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct List {
    /// The metrics in `list`. The position of a metric in this set is its position in `list`, so no search is
    /// necessary.
    metrics: MetricSet,
    /// The distributions in the order of the metrics.
    list: Vec<(Metric, Distribution)>,
}

impl Distributions {
    /// Returns empty distributions, one for each of the metrics that can have a distribution.
    pub fn new(metrics: MetricSet) -> Self {
        let metrics = metrics.iter().filter(|metric| metric.has_distribution());
        let mut list = Vec::with_capacity(metrics.clone().count()); // no spare capacity: distributions are large
        list.extend(metrics.map(|metric| (metric, Distribution::default())));
        Self::from(list)
    }

    fn from(list: Vec<(Metric, Distribution)>) -> Self {
        let metrics = list.iter().map(|(metric, _)| metric).collect();
        Self((!list.is_empty()).then(|| Box::new(List { metrics, list })))
    }

    /// Returns whether no metric has a distribution.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Accepts a sample of a metric. The sample is ignored if the metric has no distribution.
    #[inline]
    pub fn accept(&mut self, metric: Metric, sample: f64) {
        let Some(List { metrics, list }) = self.0.as_deref_mut() else { return };
        if let Some((_, distribution)) = metrics.position(metric).and_then(|place| list.get_mut(place)) {
            distribution.accept(sample);
        }
    }

    /// Adds the samples of `later` to the distributions of the same metrics.
    pub fn merge(&mut self, later: &Self) {
        if later.is_empty() {
            return;
        }
        let mut list = self.0.take().map(|list| list.list).unwrap_or_default();
        for (metric, distribution) in later.iter() {
            match list.iter_mut().find(|(listed, _)| *listed == metric) {
                // The merge cannot fail: the sum has room for one sample per nanosecond in 292 years.
                Some((_, sum)) => drop(sum.merge(distribution)),
                None => {
                    list.reserve_exact(1);
                    list.push((metric, distribution.clone()));
                }
            }
        }
        list.sort_by_key(|(metric, _)| *metric);
        *self = Self::from(list);
    }

    /// Returns each metric with its distribution.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, &Distribution)> {
        self.0.iter().flat_map(|list| list.list.iter().map(|(metric, distribution)| (*metric, distribution)))
    }

    /// Returns the distribution of a metric; `None` if the metric has no distribution.
    pub fn get(&self, metric: Metric) -> Option<&Distribution> {
        self.iter().find(|(listed, _)| *listed == metric).map(|(_, distribution)| distribution)
    }

    /// Returns the distributions of an ended window. `metrics` has the metrics of this window with their summaries. A
    /// metric whose summary has no samples, for example because they were discarded, has no distribution in the result.
    pub fn of_window(self, metrics: &[(Metric, Summary)]) -> Self {
        let mut list = self.0.map(|list| list.list).unwrap_or_default();
        list.retain(|(listed, distribution)| {
            let summary = metrics.iter().find(|(metric, _)| metric == listed).map(|(_, summary)| summary);
            let count = summary.map_or(0, |summary| summary.sample_count);
            debug_assert!(
                count == 0 || count == distribution.count(),
                "{listed}: not the samples of the window"
            );
            count > 0
        });
        list.shrink_to_fit();
        Self::from(list)
    }
}
