// SPDX-License-Identifier: Apache-2.0

//! The content of received messages, in base units. Names of nodes and topics are as in the labels of time series.

use std::{borrow::Cow, fmt};

use rclrs_topic_statistics::Metric;
use topic_statistics_core::{health::Level, Escaped, Summary, Window};
use topic_statistics_observe::ros::wire;

#[derive(Clone, Debug)]
pub enum Received {
    /// One metric of one window, from `/statistics`.
    Window(MetricWindow),
    /// The distribution of one metric of one window, from `/statistics/distribution`. The samples are in the metric's
    /// original unit ([`Metric::unit`]), because the bucket boundaries are in this unit.
    Distribution(SourceName, wire::MetricDistribution),
    /// The number of messages of a topic that a node has lost since its previous event, from `/events/messages_lost`.
    Losses(SourceName, u64),
    /// One status, from `/diagnostics`. The health is `None` if the status is not about a source of statistics.
    Diagnostic(DiagnosticName, Level, Option<(SourceName, wire::SourceHealth)>),
}

/// The name of a source of statistics: the text of `measurement_source_name`, split into two parts at the first colon.
///
/// The two parts have no control characters, and at most 256 characters each. Names in ROS contain no colon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName {
    /// The fully qualified name of the node. If `measurement_source_name` has no colon, this field has the whole text.
    /// In messages from rclcpp, the text is the node name without a namespace; for `clock_offset_ms`, it is the name of
    /// the host.
    pub node: Box<str>,
    /// The topic, or the name of a stopwatch or counter. `None` if no text follows a colon.
    pub name: Option<Box<str>>,
}

/// A metric whose figures are in the base unit of its dimension, for example seconds for a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricName {
    Known(Metric),
    /// Another metric: its `metrics_source` without control characters, and the unit of its figures.
    Other {
        name: Box<str>,
        unit: Cow<'static, str>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetricWindow {
    pub source: SourceName,
    pub metric: MetricName,
    pub window: Window,
    /// The figures, in the base unit of the metric. NaN means that the figure was not measured.
    pub figures: Summary,
}

/// The name of a component with a diagnostic status. Each text has no control characters, and at most 256 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiagnosticName {
    pub name: Box<str>,
    pub hardware_id: Box<str>,
}

impl Received {
    /// Returns the node that the message is about. If a status is not about a source, returns the reporting node.
    pub fn node(&self) -> &str {
        match self {
            Self::Window(MetricWindow { source, .. })
            | Self::Distribution(source, _)
            | Self::Losses(source, _)
            | Self::Diagnostic(_, _, Some((source, _))) => &source.node,
            Self::Diagnostic(name, _, None) => name.judge(),
        }
    }
}

impl DiagnosticName {
    /// Returns the node that reports this status. The node is the part of the status's name before the first colon.
    pub fn judge(&self) -> &str {
        self.name.split_once(':').map_or(&*self.name, |(node, _)| node)
    }
}

impl SourceName {
    /// Returns the name of a source, from the field `measurement_source_name` of a message.
    pub fn new(source: &str) -> Self {
        let (node, name) = source.split_once(':').map_or((source, None), |(node, name)| (node, Some(name)));
        Self { node: printable(node), name: name.filter(|name| !name.is_empty()).map(printable) }
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.node)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, ":{name}"))
    }
}

impl MetricName {
    /// Returns a metric, and the factor that converts its figures from `unit` to the base unit.
    fn new(name: &str, unit: &str) -> (Self, f64) {
        let (base, factor) = base_unit(unit);
        match name.parse::<Metric>() {
            Ok(metric) if base_unit(metric.unit()).0 == base => (Self::Known(metric), factor),
            _ => (Self::Other { name: printable(name), unit: base }, factor),
        }
    }

    /// Returns the metric of the library. `None` for a metric that the library does not define.
    pub fn known(&self) -> Option<Metric> {
        match self {
            Self::Known(metric) => Some(*metric),
            Self::Other { .. } => None,
        }
    }
}

/// Returns the base unit for figures in `unit`, and the factor that converts figures from `unit` to this base unit.
///
/// A unit that is not known is returned without control characters, with the factor 1.
pub fn base_unit(unit: &str) -> (Cow<'static, str>, f64) {
    let (base, factor) = match unit {
        "s" | "seconds" => ("seconds", 1.0),
        "ms" | "milliseconds" => ("seconds", 1e-3),
        "us" | "microseconds" => ("seconds", 1e-6),
        "ns" | "nanoseconds" => ("seconds", 1e-9),
        "B" | "bytes" => ("bytes", 1.0),
        "messages" => ("messages", 1.0),
        "Hz" | "hertz" => ("hertz", 1.0),
        other => return (Cow::Owned(Escaped(other).to_string()), 1.0),
    };
    (Cow::Borrowed(base), factor)
}

impl From<wire::MetricWindow> for Received {
    fn from(read: wire::MetricWindow) -> Self {
        let (metric, factor) = MetricName::new(&read.metric, &read.unit);
        let Summary { average, minimum, maximum, standard_deviation, sample_count, .. } = read.figures;
        let [average, minimum, maximum, deviation] =
            [average, minimum, maximum, standard_deviation].map(|figure| figure * factor);
        Self::Window(MetricWindow {
            source: SourceName::new(&read.source),
            metric,
            window: read.window,
            figures: Summary::new(average, minimum, maximum, deviation, sample_count),
        })
    }
}

impl From<wire::MetricDistribution> for Received {
    fn from(read: wire::MetricDistribution) -> Self {
        Self::Distribution(SourceName::new(&read.source), read)
    }
}

impl From<wire::Losses> for Received {
    fn from(read: wire::Losses) -> Self {
        Self::Losses(
            SourceName { node: printable(&read.node), name: Some(printable(&read.topic)) },
            read.lost,
        )
    }
}

impl From<wire::Diagnostic> for Received {
    fn from(read: wire::Diagnostic) -> Self {
        let name = DiagnosticName { name: printable(&read.name), hardware_id: printable(&read.hardware_id) };
        Self::Diagnostic(
            name,
            read.level,
            read.health.map(|health| (SourceName::new(&health.source), health)),
        )
    }
}

fn printable(name: &str) -> Box<str> {
    Escaped(name).to_string().into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use topic_statistics_observe::ros::testing::{message, FIGURES};

    fn read(source: &str, name: &str, unit: &str) -> MetricWindow {
        let read = wire::MetricWindow::new(&message(source, name, unit, 100, FIGURES)).unwrap();
        let Received::Window(window) = read.into() else { unreachable!() };
        window
    }

    #[test]
    fn figures_are_in_base_units_and_another_dimension_is_another_metric() {
        assert_eq!(
            read("/a:/b", "message_age", "ms").figures,
            Summary::new(0.0015, 0.001, 0.004, 0.0005, 50)
        );
        let other = |name: &str, unit| MetricName::Other { name: name.into(), unit: Cow::Borrowed(unit) };
        for (name, unit, expected) in [
            ("message_age", "ns", MetricName::Known(Metric::MessageAge)),
            ("message_age", "m", other("message_age", "m")),
            ("jitter\n", "us", other("jitter\\u{a}", "seconds")),
        ] {
            assert_eq!(read("a", name, unit).metric, expected);
        }
    }

    #[test]
    fn names_are_split_at_the_first_colon() {
        for (text, node, name) in [
            ("cpp_listener", "cpp_listener", None),
            ("cpp_listener:", "cpp_listener", None), // same labels as with no colon
            ("/b:x:y", "/b", Some("x:y")),
        ] {
            let source = SourceName { node: node.into(), name: name.map(Into::into) };
            assert_eq!(SourceName::new(text), source);
            assert_eq!(source.to_string(), text.trim_end_matches(':'));
        }
    }
}
