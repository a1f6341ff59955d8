// SPDX-License-Identifier: Apache-2.0

//! The counts and the samples of a service, a client, an action or a timer.
//!
//! The sources of a node use [`Measurements`]. topic_monitor uses the same type for calls and goals, which it derives
//! from the messages that nodes publish.

use crate::{
    collector::{single_sample, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    summary::Summary,
};

/// What was measured in a window: for each metric, a count of events or a summary of samples.
#[derive(Debug)]
pub struct Measurements {
    metrics: MetricSet,
    /// For each metric that counts events ([`Metric::is_count`]) and that the source can measure: the count.
    counts: Box<[(Metric, u64)]>,
    samples: Box<[(Metric, SummaryCollector)]>,
}

impl Measurements {
    /// Creates the measurements of a source. `possible` are the metrics that the source can measure, and `metrics` are
    /// those of them that it does measure.
    pub fn new(possible: &[Metric], metrics: MetricSet) -> Self {
        let all = || possible.iter().copied();
        let counts = all().filter(|metric| metric.is_count()).map(|metric| (metric, 0));
        let samples = all().filter(|metric| metric.has_distribution());
        let samples = samples.map(|metric| (metric, SummaryCollector::default()));
        Self { metrics, counts: counts.collect(), samples: samples.collect() }
    }

    /// Returns whether a metric is measured.
    pub fn measures(&self, metric: Metric) -> bool {
        self.metrics.contains(metric)
    }

    /// Counts one event of a metric.
    pub fn count(&mut self, metric: Metric) {
        if let Some((_, count)) = self.counts.iter_mut().find(|(counted, _)| *counted == metric) {
            *count += 1;
        }
    }

    /// Returns how many events of a metric were counted in the window.
    pub fn counted(&self, metric: Metric) -> u64 {
        self.counts.iter().find(|(counted, _)| *counted == metric).map_or(0, |(_, count)| *count)
    }

    /// Adds a sample to a metric and to the metric's distribution. Ignores the sample if it is NaN or infinite.
    pub fn add(&mut self, metric: Metric, sample: f64, distributions: &mut Distributions) {
        let samples = self.samples.iter_mut().find(|(sampled, _)| *sampled == metric);
        if samples.is_some_and(|(_, samples)| samples.accept(sample)) {
            distributions.accept(metric, sample);
        }
    }

    /// Discards the samples of a metric in this window.
    pub fn discard(&mut self, metric: Metric) {
        if let Some((_, samples)) = self.samples.iter_mut().find(|(sampled, _)| *sampled == metric) {
            samples.take();
        }
    }

    /// Ends a window, and starts the next window. Returns the summaries of the measured metrics. If `others` has the
    /// summary of a metric, this summary is returned. If not, the summary of the metric's samples or count is returned.
    pub fn take(&mut self, others: &[(Metric, Summary)]) -> Vec<(Metric, Summary)> {
        let summary = |metric: Metric| {
            let other = others.iter().find(|(other, _)| *other == metric).map(|(_, summary)| *summary);
            let samples = || self.samples.iter().find(|(sampled, _)| *sampled == metric);
            let of_samples = || samples().map(|(_, samples)| samples.summary());
            other.or_else(of_samples).unwrap_or_else(|| single_sample(Some(self.counted(metric) as f64)))
        };
        let mut metrics = Vec::with_capacity(self.metrics.len());
        metrics.extend(self.metrics.iter().map(|metric| (metric, summary(metric))));
        self.clear();
        metrics
    }

    /// Discards all counts and samples.
    pub fn clear(&mut self) {
        self.counts.iter_mut().for_each(|(_, count)| *count = 0);
        self.samples.iter_mut().for_each(|(_, samples)| *samples = SummaryCollector::default());
    }
}
