// SPDX-License-Identifier: Apache-2.0

//! The samples and counts of a window of a service or an action.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use rclrs_topic_statistics::{Distribution, Metric};
use topic_statistics_core::collector::SummaryCollector;
use topic_statistics_observe::{
    format::milliseconds,
    row::{MetricFigures, Window},
};

/// The samples and counts of a window that has not ended.
#[derive(Debug, Default)]
pub struct Samples(BTreeMap<Metric, (SummaryCollector, Distribution)>);

impl Samples {
    /// Adds a sample of a metric, in the unit of the metric.
    pub fn add(&mut self, metric: Metric, sample: f64) {
        let (summary, distribution) = self.0.entry(metric).or_default();
        if summary.accept(sample) && metric.has_distribution() {
            distribution.accept(sample);
        }
    }

    /// Adds the time between two events, in milliseconds.
    pub fn add_between(&mut self, metric: Metric, from: Instant, to: Instant) {
        self.add(metric, milliseconds(to.saturating_duration_since(from)));
    }

    /// Ends a window. The window gets all `metrics`, in this order.
    pub fn end(self, metrics: &[Metric], mut window: Window, received: Option<u64>) -> Window {
        let figures = |metric: &Metric| {
            let figures = self.0.get(metric).map(|(summary, _)| summary.summary()).unwrap_or_default();
            MetricFigures { name: metric.name().to_owned(), unit: metric.unit().to_owned(), figures }
        };
        window.rate = received.map_or(f64::NAN, |received| received as f64 / window.length.as_secs_f64());
        window.received = received;
        window.metrics = metrics.iter().map(figures).collect();
        let has_samples = |distribution: &Distribution| distribution.count() > 0;
        let distributions = self.0.into_iter().filter(|(_, (_, distribution))| has_samples(distribution));
        window.distributions = distributions.map(|(metric, (_, all))| (metric, Arc::new(all))).collect();
        window
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::Duration;
    use topic_statistics_core::Window as Times;

    /// Returns a window of one second without other values.
    pub fn empty(ended: Instant) -> Window {
        Window::new(Times::from_nanoseconds(0, 1), ended, Duration::from_secs(1))
    }
}
