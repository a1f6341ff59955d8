// SPDX-License-Identifier: Apache-2.0

//! The samples and counts of a window.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rclrs_topic_statistics::{Distribution, Metric};
use topic_statistics_core::collector::SummaryCollector;
use topic_statistics_observe::{
    format::milliseconds,
    row::{Figures, MetricFigures, Window},
};

/// The samples and counts of a window that has not ended.
#[derive(Debug, Default)]
pub struct Samples(BTreeMap<Metric, (SummaryCollector, Distribution)>);

impl Samples {
    /// Adds a sample in the unit of the metric.
    pub fn add(&mut self, metric: Metric, sample: f64) {
        let (summary, distribution) = self.0.entry(metric).or_default();
        if summary.accept(sample) && metric.has_distribution() {
            distribution.accept(sample);
        }
    }

    /// Adds the time from one event to another.
    pub fn add_between(&mut self, metric: Metric, from: Instant, to: Instant) {
        self.add(metric, milliseconds(to.saturating_duration_since(from)));
    }

    /// Ends the window. It has a row for each of the metrics, in their order.
    pub fn end(self, metrics: &[Metric], span: &Span, received: Option<u64>) -> Window {
        let Span { start, stop, ended, length } = *span;
        let figures = |metric: &Metric| {
            let summary = self.0.get(metric).map(|(summary, _)| summary.summary());
            let figures = summary.as_ref().map_or(Figures::NONE, Figures::from);
            MetricFigures { name: metric.name().to_owned(), unit: metric.unit().to_owned(), figures }
        };
        let metrics = metrics.iter().map(figures).collect();
        let has_samples = |distribution: &Distribution| distribution.count() > 0;
        let distributions = self.0.into_iter().filter(|(_, (_, distribution))| has_samples(distribution));
        Window {
            start,
            stop,
            clock_step: None,
            ended,
            length,
            rate: received.map_or(f64::NAN, |received| received as f64 / length.as_secs_f64()),
            received,
            told: None,
            lost: None,
            lost_since: None,
            out_of_order: None,
            bytes: None,
            unstamped: false,
            without_clock: false,
            has_history: false,
            metrics,
            distributions: distributions.map(|(metric, (_, all))| (metric, Arc::new(all))).collect(),
        }
    }
}

/// When a window was.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The start on the system clock, in nanoseconds since the epoch.
    pub start: i64,
    /// The stop on the system clock, in nanoseconds since the epoch.
    pub stop: i64,
    /// When it ended, on the monotonic clock.
    pub ended: Instant,
    /// The length, on the monotonic clock.
    pub length: Duration,
}
