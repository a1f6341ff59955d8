// SPDX-License-Identifier: Apache-2.0

//! The samples and counts of a window of a service or an action.

use std::sync::Arc;

use rclrs_topic_statistics::{Metric, Summary};
use topic_statistics_core::{
    collector::single_sample, distributions::Distributions, metric_set::MetricSet,
    record::measurements::Measurements,
};
use topic_statistics_observe::row::{MetricFigures, Window};

/// The samples and counts of a window that has not ended.
#[derive(Debug)]
pub struct Samples {
    metrics: &'static [Metric],
    measurements: Measurements,
    distributions: Distributions,
}

impl Samples {
    pub fn new(metrics: &'static [Metric]) -> Self {
        let set = MetricSet::of(metrics);
        let measurements = Measurements::new(metrics, set);
        Self { metrics, measurements, distributions: Distributions::new(set) }
    }

    pub fn count(&mut self, metric: Metric) {
        self.measurements.count(metric);
    }

    pub fn counted(&self, metric: Metric) -> u64 {
        self.measurements.counted(metric)
    }

    pub fn add(&mut self, metric: Metric, sample: f64) {
        self.measurements.add(metric, sample, &mut self.distributions);
    }

    /// Ends a window with all metrics, in the order of [`new`](Self::new). `others` are the values of metrics that are
    /// neither counted nor sampled, and the values that replace counts; `None` if unknown.
    pub fn end(
        &mut self,
        others: &[(Metric, Option<f64>)],
        mut window: Window,
        received: Option<u64>,
    ) -> Window {
        let others: Vec<_> = others.iter().map(|(metric, value)| (*metric, single_sample(*value))).collect();
        let summaries = self.measurements.take(&others);
        let empty = Distributions::new(MetricSet::of(self.metrics));
        let distributions = std::mem::replace(&mut self.distributions, empty).of_window(&summaries);
        let figures = |metric: &Metric| {
            let summary = summaries.iter().find(|(other, _)| other == metric);
            let figures = summary.map_or_else(Summary::default, |(_, summary)| *summary);
            MetricFigures { name: metric.name().to_owned(), unit: metric.unit().to_owned(), figures }
        };
        window.rate = received.map_or(f64::NAN, |received| received as f64 / window.length.as_secs_f64());
        window.received = received;
        window.metrics = self.metrics.iter().map(figures).collect();
        window.distributions =
            distributions.iter().map(|(metric, samples)| (metric, Arc::new(samples.clone()))).collect();
        window
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::Duration;
    use topic_statistics_core::Window as Times;
    use topic_statistics_observe::testing::at;

    /// Returns a window of one second that has no values yet and ends at this time in milliseconds.
    pub fn empty(milliseconds: u64) -> Window {
        let ended = at(0) + Duration::from_millis(milliseconds);
        Window::new(Times::from_nanoseconds(0, 1), ended, Duration::from_secs(1))
    }

    /// Returns the mean and the number of samples of each named metric.
    pub fn figures(window: &Window, names: &str) -> Vec<(f64, u64)> {
        let figures = |name| window.metrics.iter().find(|metric| metric.name == name).unwrap().figures;
        names.split(' ').map(figures).map(|figures| (figures.average, figures.sample_count)).collect()
    }
}
