// SPDX-License-Identifier: Apache-2.0

//! The families of each metric: names, meanings, and the form of their values.

use std::sync::LazyLock;

use rclrs_topic_statistics::Metric;

use super::writer::{Family, Kind};
use crate::model::{MetricName, Unit};

/// The families of all metrics of the library, and at last those of any other metric.
pub static OF_METRICS: LazyLock<Vec<MetricFamilies>> =
    LazyLock::new(|| Metric::ALL.iter().copied().map(Some).chain([None]).map(MetricFamilies::new).collect());

/// The families of one metric.
pub struct MetricFamilies {
    /// `None` for metrics that are not of the library.
    pub metric: Option<Metric>,
    /// The part of their names that is the metric's.
    pub base_name: &'static str,
    /// The form in which a metric's window is written.
    pub shape: Shape,
    pub mean: Family,
    pub min: Family,
    pub max: Family,
    pub std_dev: Family,
    /// Sum and count of all windows, and quantiles of the last one.
    pub summary: Family,
    pub negative_windows: Family,
    pub distribution: Family,
}

/// The values of a metric in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Many samples.
    Samples,
    /// One value, which is a gauge.
    OneValue,
    /// One frequency, and the number of events.
    Frequency,
    /// One count. The sum of all windows is a counter.
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
        let unit = match metric.map(|metric| MetricName::Known(metric).unit()) {
            Some(Unit::Seconds) => "seconds",
            Some(Unit::Bytes) => "bytes",
            Some(Unit::Messages) => "messages",
            Some(Unit::Hertz) => "hertz",
            Some(Unit::Other(_)) | None => "",
        };
        let shape = match metric {
            // One for each thread.
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
            Shape::Frequency => Family {
                name: "topic_statistics_events".to_owned(),
                help: "Events that a counter of a node has counted. High: they are frequent".to_owned(),
                kind: Kind::Counter,
                unit: "",
            },
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
            negative_windows: Family {
                name: format!("topic_statistics_{name}_negative_windows"),
                help: format!(
                    "Windows with a negative sample: {what}. High: the clocks of two hosts differ, or stamps are wrong"
                ),
                kind: Kind::Counter,
                unit: "",
            },
            distribution: family(
                Kind::Histogram,
                "distribution",
                format!("Samples of all windows with a distribution: {what}. High: {high}"),
            ),
        }
    }
}

/// Returns the part of its families' names that is the metric's: its name without the unit, which Prometheus has last.
fn base_name(metric: Metric) -> &'static str {
    match metric {
        Metric::PublicationSeqGap => "publication_gap",
        Metric::Busy => "busy_percent",
        _ => metric.name().trim_end_matches("_ms").trim_end_matches("_hz"),
    }
}
