// SPDX-License-Identifier: Apache-2.0

//! The content of received messages, in base units. Names of nodes and topics are as in the labels of time series.

use std::fmt;

use rclrs_topic_statistics::{Distribution, Metric};
use topic_statistics_core::{health::Level, Escaped, Summary, Window};
use topic_statistics_observe::ros::wire::{self, ExpectedLimit};

/// The content of one received message, or of one part of a message.
#[derive(Clone, Debug)]
pub enum Received {
    /// One metric of one window, from `/statistics`.
    Window(MetricWindow),
    /// The distribution of one metric of one window, from `/statistics/distribution`.
    Distribution(MetricDistribution),
    /// The losses of one subscription, from `/events/messages_lost`.
    Losses(Losses),
    /// One status, from `/diagnostics`.
    Diagnostic(Diagnostic),
}

/// The name of a source of statistics: the text of `measurement_source_name`, split into two parts at the first colon.
///
/// The two parts have no control characters, and at most 256 characters each. Names in ROS contain no colon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName {
    /// The fully qualified name of the node. If `measurement_source_name` has no colon, this field has the whole text.
    /// From rclcpp, this is the node name without a namespace; for `clock_offset_ms`, the name of the host.
    pub node: Box<str>,
    /// The resolved topic name, or the name of a stopwatch or counter. `None` if `measurement_source_name` has no
    /// colon, or nothing after the colon.
    pub name: Option<Box<str>>,
}

/// A metric whose figures are in the base unit of its dimension, for example seconds for a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricName {
    /// A metric of the library.
    Known(Metric),
    /// A metric that the library does not define.
    Other {
        /// The field `metrics_source` of the message, without control characters.
        name: Box<str>,
        /// The unit of the figures.
        unit: Unit,
    },
}

/// The base unit of a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number of messages.
    Messages,
    /// Hertz.
    Hertz,
    /// An unknown unit. The text is the unit in the received message without control characters.
    Other(Box<str>),
}

/// One metric of one finished window of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricWindow {
    /// The source.
    pub source: SourceName,
    /// The metric.
    pub metric: MetricName,
    /// The window.
    pub window: Window,
    /// The figures, in the base unit of the metric. NaN means that the figure was not measured.
    pub figures: Summary,
}

/// The distribution of one metric of one finished window of one source.
#[derive(Clone, Debug)]
pub struct MetricDistribution {
    /// The source.
    pub source: SourceName,
    /// The metric.
    pub metric: Metric,
    /// The window.
    pub window: Window,
    /// The samples, in the metric's original unit ([`Metric::unit`]), because the bucket boundaries are in this unit.
    pub distribution: Box<Distribution>,
}

/// The messages that one subscription has lost since its previous event.
#[derive(Clone, Debug, PartialEq)]
pub struct Losses {
    /// The names of the node and of the topic.
    pub source: SourceName,
    /// The number of lost messages.
    pub lost: u64,
}

/// A diagnostic status.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The name of the component that has this status.
    pub name: DiagnosticName,
    /// The severity.
    pub level: Level,
    /// The health of a source of statistics. `None` if the status is about something else.
    pub health: Option<SourceHealth>,
}

/// The health of a source of statistics, as the source's node or `topic_monitor` judges the source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceHealth {
    /// The source.
    pub source: SourceName,
    /// Messages per second. The judge measures this rate over as many windows as a reliable rate needs.
    pub rate: Option<f64>,
    /// The limits in the source's conditions, each in the unit of its quantity. Each kind of limit occurs at most once.
    pub limits: Vec<ExpectedLimit>,
    /// The number of windows judged so far, for each level. `None` if the status does not contain these numbers.
    pub windows: Option<[u64; 4]>,
}

/// The name of a component with a diagnostic status. Each text has no control characters, and at most 256 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiagnosticName {
    /// The field `name` of the status, for example `/listener: Topic statistics`.
    pub name: Box<str>,
    /// The field `hardware_id` of the status, which is often empty.
    pub hardware_id: Box<str>,
}

impl Received {
    /// Returns the name of the node that the message is about. For a diagnostic status that is not the health of a
    /// source, this is the node that reports the status.
    pub fn node(&self) -> &str {
        match self {
            Self::Window(window) => &window.source.node,
            Self::Distribution(distribution) => &distribution.source.node,
            Self::Losses(losses) => &losses.source.node,
            Self::Diagnostic(Diagnostic { health: Some(health), .. }) => &health.source.node,
            Self::Diagnostic(diagnostic) => diagnostic.name.judge(),
        }
    }
}

impl DiagnosticName {
    /// Returns the name of the node that reports this status. `diagnostic_updater`, the library and `topic_monitor` all
    /// write this name before the colon in the field `name`.
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
        let (base, factor) = Unit::new(unit);
        match name.parse::<Metric>() {
            Ok(metric) if Unit::new(metric.unit()).0 == base => (Self::Known(metric), factor),
            _ => (Self::Other { name: printable(name), unit: base }, factor),
        }
    }

    /// Returns the unit of the figures.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Known(metric) => Unit::new(metric.unit()).0,
            Self::Other { unit, .. } => unit.clone(),
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

impl Unit {
    /// Returns the base unit for figures in `unit`, and the factor that converts figures from `unit` to this base unit.
    pub fn new(unit: &str) -> (Self, f64) {
        match unit {
            "s" | "seconds" => (Self::Seconds, 1.0),
            "ms" | "milliseconds" => (Self::Seconds, 1e-3),
            "us" | "microseconds" => (Self::Seconds, 1e-6),
            "ns" | "nanoseconds" => (Self::Seconds, 1e-9),
            "B" | "bytes" => (Self::Bytes, 1.0),
            "messages" => (Self::Messages, 1.0),
            "Hz" | "hertz" => (Self::Hertz, 1.0),
            other => (Self::Other(printable(other)), 1.0),
        }
    }
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
        let wire::MetricDistribution { source, metric, window, distribution } = read;
        Self::Distribution(MetricDistribution {
            source: SourceName::new(&source),
            metric,
            window,
            distribution,
        })
    }
}

impl From<wire::Losses> for Received {
    fn from(read: wire::Losses) -> Self {
        let source = SourceName { node: printable(&read.node), name: Some(printable(&read.topic)) };
        Self::Losses(Losses { source, lost: read.lost })
    }
}

impl From<wire::Diagnostic> for Received {
    fn from(read: wire::Diagnostic) -> Self {
        let name = DiagnosticName { name: printable(&read.name), hardware_id: printable(&read.hardware_id) };
        let health = read.health.map(|health| SourceHealth {
            source: SourceName::new(&health.source),
            rate: health.rate,
            limits: health.limits,
            windows: health.windows,
        });
        Self::Diagnostic(Diagnostic { name, level: read.level, health })
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
    fn milliseconds_become_seconds() {
        let window = read("/listener:/imu", "message_age", "ms");
        assert_eq!(window.metric, MetricName::Known(Metric::MessageAge));
        assert_eq!(window.source, SourceName { node: "/listener".into(), name: Some("/imu".into()) });
        assert_eq!(window.figures, Summary::new(0.0015, 0.001, 0.004, 0.0005, 50));
    }

    #[test]
    fn a_metric_in_a_unit_of_another_dimension_is_another_metric() {
        let other = |name: &str, unit| MetricName::Other { name: name.into(), unit };
        for (name, unit, expected) in [
            ("message_age", "ns", MetricName::Known(Metric::MessageAge)),
            ("message_age", "m", other("message_age", Unit::Other("m".into()))),
            ("jitter\n", "us", other("jitter\\u{a}", Unit::Seconds)),
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
