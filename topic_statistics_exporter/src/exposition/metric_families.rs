// SPDX-License-Identifier: Apache-2.0

//! The metric families (in the sense of Prometheus) of each metric: their names, help texts and types.

use std::{borrow::Cow, sync::LazyLock};

use rclrs_topic_statistics::Metric;

use super::writer::{counter, Family, Kind};
use crate::model::base_unit;

/// The families of each metric of the library. The last element has the families that all unknown metrics share.
pub static OF_METRICS: LazyLock<Vec<MetricFamilies>> =
    LazyLock::new(|| Metric::ALL.iter().copied().map(Some).chain([None]).map(MetricFamilies::new).collect());

pub struct MetricFamilies {
    /// The metric. `None` for the families that all metrics unknown to the library share.
    pub metric: Option<Metric>,
    /// The metric's name without the unit, as in the names of its families.
    pub base_name: &'static str,
    pub shape: Shape,
    pub mean: Family,
    pub min: Family,
    pub max: Family,
    pub std_dev: Family,
    /// The sum and count of all windows, and the quantiles of the last window.
    pub summary: Family,
    pub negative_windows: Family,
    pub distribution: Family,
}

/// The kind of values that a metric has in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Samples,
    /// One value, which is written as a gauge.
    OneValue,
    /// One frequency and one number of events. The sum of the numbers of all windows is written as a counter.
    Frequency,
    /// One count. The sum of the counts of all windows is written as a counter.
    Count,
}

impl MetricFamilies {
    fn new(metric: Option<Metric>) -> Self {
        let name = metric.map_or("other", base_name);
        let (what, high) = match metric {
            Some(metric) => (metric.help(), metric.high().split(": ").next().unwrap_or_default()),
            None => (
                "samples of a metric that this exporter does not know, in the unit of the label",
                "what that means is up to the metric",
            ),
        };
        let unit = match metric.map(|metric| base_unit(metric.unit()).0) {
            Some(Cow::Borrowed(unit)) => unit,
            Some(Cow::Owned(_)) | None => "",
        };
        let shape = match metric {
            // In each window, an executor has one sample per thread.
            Some(Metric::Busy) => Shape::Samples,
            Some(Metric::Frequency) => Shape::Frequency,
            Some(metric) if metric.is_count() => Shape::Count,
            Some(metric) if !metric.has_distribution() => Shape::OneValue,
            _ => Shape::Samples,
        };
        let family = |kind, part: &str, help: String| {
            let parts = ["topic_statistics", name, part, unit];
            let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_");
            Family { name, help, kind, unit }
        };
        let gauge = |part, text: &str| {
            family(Kind::Gauge, part, format!("{text} of the last window: {what}. High: {high}"))
        };
        let mean = match shape {
            Shape::Samples => gauge("mean", "Average"),
            _ => family(Kind::Gauge, "", format!("In the last window: {what}. High: {high}")),
        };
        let summary = match shape {
            Shape::Frequency => {
                counter("events", "Events that a counter of a node has counted. High: they are frequent")
            }
            Shape::Count => family(Kind::Counter, "", format!("In all windows: {what}. High: {high}")),
            _ => family(
                Kind::Summary,
                "",
                format!(
                    "Sum and count of the samples of all windows, but those with a negative sample; quantiles of the \
                     last window: {what}. High: {high}"
                ),
            ),
        };
        Self {
            metric,
            base_name: name,
            shape,
            mean,
            min: gauge("min", "Smallest sample"),
            max: gauge("max", "Largest sample"),
            std_dev: gauge("stddev", "Standard deviation"),
            summary,
            negative_windows: counter(
                &format!("{name}_negative_windows"),
                &format!(
                    "Windows with a negative sample: {what}. High: the clocks of two hosts differ, or stamps are wrong"
                ),
            ),
            distribution: family(
                Kind::Histogram,
                "distribution",
                format!("Samples of all windows with a distribution: {what}. High: {high}"),
            ),
        }
    }
}

/// Returns the metric's name without the unit. In Prometheus, the unit is at the end of a family's name.
fn base_name(metric: Metric) -> &'static str {
    match metric {
        Metric::PublicationSeqGap => "publication_gap",
        Metric::Busy => "busy_percent",
        _ => metric.name().trim_end_matches("_ms").trim_end_matches("_hz"),
    }
}
