// SPDX-License-Identifier: Apache-2.0

//! Writes the health of sources for alerts, and the limits in the conditions by which this health is judged.

use std::collections::BTreeMap;

use rclrs_topic_statistics::Metric;
use topic_statistics_core::{
    condition::{Figure, Quantity},
    health::Level,
};
use topic_statistics_observe::ros::wire::ExpectedLimit;

use super::writer::{counter, family, Kind, Writer};
use crate::{
    model::base_unit,
    state::{Judged, State},
};

/// The name and the unit of a quantity, which are parts of the name of the metric family `expected_...`.
type Expected = (&'static str, &'static str);

/// Writes the health of all sources. `of_metric` returns the name and the unit of a metric in the form that the names
/// of metric families use.
pub fn write_health<W: Writer>(writer: &mut W, state: &State, of_metric: impl Fn(Metric) -> Expected) {
    let healths = || state.healths.iter().map(|(name, health)| (labels(name), health));
    let help = "Health of a source, as the node in judge sees it, its own or topic_monitor: 0 OK, 1 warning, 2 error, \
                3 stale. High: it is not as its author expects";
    writer.family(&family("health_level", Kind::Gauge, "", help));
    for (labels, health) in healths() {
        writer.gauge(&W::labels(&labels), f64::from(health.level as u8));
    }
    let help =
        "Messages per second of a source, as its health is judged by: counted over as many windows as that \
                takes. Low: messages do not arrive";
    writer.family(&family("judged_rate", Kind::Gauge, "hertz", help));
    for (labels, health) in healths() {
        if let Some(rate) = health.rate {
            writer.gauge(&W::labels(&labels), rate);
        }
    }
    let help =
        "Windows of a source by the health that they led to. High, other than ok: it is often not as expected";
    writer.family(&counter("windows_judged", help));
    for (labels, health) in healths() {
        for level in Level::ALL {
            let name = level.name().to_ascii_lowercase();
            let labels = [&labels[..], &[("level", &*name)]].concat();
            writer.counter(&W::labels(&labels), health.windows(level) as f64, health.created);
        }
    }
    let mut expected: BTreeMap<Expected, Vec<(W::Labels, f64)>> = BTreeMap::new();
    for (labels, health) in healths() {
        for limit in &health.limits {
            let further = [
                ("figure", figure(limit.quantity)),
                ("bound", if limit.is_lower { "lower" } else { "upper" }),
                ("level", if limit.is_error { "error" } else { "warn" }),
            ];
            let value = limit.value * base_unit(limit.quantity.unit()).1;
            let series = (W::labels(&[&labels[..], &further].concat()), value);
            expected.entry(name_and_unit(limit, &of_metric)).or_default().push(series);
        }
    }
    for ((name, unit), series) in expected {
        let help = "A limit that the author of a node, or of topic_monitor's file, expects to be kept: bound is lower \
                    or upper, level is what the health becomes otherwise";
        writer.family(&family(&format!("expected_{name}"), Kind::Gauge, unit, help));
        for (labels, value) in series {
            writer.gauge(&labels, value);
        }
    }
}

/// Returns the labels `node`, `topic` or `name`, and `judge`: the node that judges the source's health.
fn labels(judged: &Judged) -> [(&'static str, &str); 3] {
    let label = match judged.source.name.as_deref() {
        Some(topic) if topic.starts_with('/') => ("topic", topic),
        name => ("name", name.unwrap_or_default()),
    };
    [("node", &judged.source.node), label, ("judge", &judged.judge)]
}

fn name_and_unit(limit: &ExpectedLimit, of_metric: impl Fn(Metric) -> Expected) -> Expected {
    match limit.quantity {
        Quantity::Rate => ("rate", "hertz"),
        Quantity::Bandwidth => ("bandwidth", "bytes_per_second"),
        Quantity::Received => ("window_messages_received", ""),
        Quantity::Bytes => ("window", "bytes"),
        Quantity::Lost => ("window_messages_lost", ""),
        Quantity::OutOfOrder => ("window_messages_out_of_order", ""),
        Quantity::Publishers => ("publishers", ""),
        Quantity::Metric(metric, Figure::SampleCount) => (of_metric(metric).0, "samples"),
        Quantity::Metric(metric, _) => of_metric(metric),
        // A later version of `topic_statistics_core` may have more quantities.
        _ => ("other", ""),
    }
}

/// Returns the value of the label `figure`: the figure of a metric, with the name that conditions use, such as `mean`.
/// The value is empty for quantities that are not metrics.
fn figure(quantity: Quantity) -> &'static str {
    let Quantity::Metric(_, figure) = quantity else { return "" };
    match figure {
        Figure::Average => "mean",
        Figure::Minimum => "min",
        Figure::Maximum => "max",
        Figure::StandardDeviation => "std",
        Figure::SampleCount => "count",
        Figure::P50 => "p50",
        Figure::P90 => "p90",
        Figure::P99 => "p99",
        Figure::P99_9 => "p999",
        // A later version of `topic_statistics_core` may have more figures.
        _ => "other",
    }
}
