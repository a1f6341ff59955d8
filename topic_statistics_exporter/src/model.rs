// SPDX-License-Identifier: Apache-2.0

//! The messages of nodes, as plain values with checked names and numbers.
//!
//! Anybody can publish anything on these topics. A wrong message is refused as a whole, with the reason: one impossible
//! figure makes the others untrustworthy.

use std::fmt;

use rclrs_topic_statistics::{Distribution, Metric};
#[cfg(feature = "interfaces")]
use ros_env::topic_statistics_interfaces::msg::{MessagesLostEventTopicStat, MetricsDistribution};
use ros_env::{
    builtin_interfaces::msg::Time, diagnostic_msgs::msg::DiagnosticStatus,
    statistics_msgs::msg::MetricsMessage,
};
use topic_statistics_core::{
    condition::{Conditions, Quantity},
    health::WINDOWS_JUDGED,
    Escaped,
};
use topic_statistics_observe::ros::statistics::{check_names, nanoseconds, DataPoints, NameTooLong};
#[cfg(feature = "interfaces")]
use topic_statistics_observe::ros::statistics::{read_distribution, UnreadableDistribution};

/// The largest figure that is accepted, in the unit of its message. In milliseconds, it is 30 000 years.
const MAX_FIGURE: f64 = 1e15;
/// The largest number of samples of a window that is accepted.
const MAX_COUNT: f64 = 1e12;

/// One message, or one part of a message, that has been checked.
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

/// The name of a source: the part of `measurement_source_name` before the first colon, and the part after it.
///
/// Without control characters, and at most 256 characters each. No name of ROS has a colon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName {
    /// The fully qualified name of the node. Without a colon, it is the whole name: the bare node name, as rclcpp has
    /// it, or the host of `clock_offset_ms`.
    pub node: Box<str>,
    /// The resolved topic, or the name of a stopwatch or counter. `None` without a colon, or with nothing after it.
    pub name: Option<Box<str>>,
}

/// A metric, in the base unit of its dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricName {
    /// A metric of the library.
    Known(Metric),
    /// Any other one.
    Other {
        /// `metrics_source`, without control characters.
        name: Box<str>,
        /// The unit of the figures.
        unit: Unit,
    },
}

/// A base unit.
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
    /// An unknown unit as received, without control characters.
    Other(Box<str>),
}

/// A window of time, as nanoseconds since the epoch on the system clock of the node's host. If that clock was stepped,
/// the stop can lie before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start.
    pub start: i64,
    /// The stop.
    pub stop: i64,
}

/// The five figures of a window, in the base unit of the metric. `None`: not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The average of the samples.
    pub mean: Option<f64>,
    /// The smallest sample.
    pub min: Option<f64>,
    /// The largest sample.
    pub max: Option<f64>,
    /// The standard deviation of the samples.
    pub std_dev: Option<f64>,
    /// The number of samples.
    pub count: u64,
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
    /// The figures.
    pub figures: Figures,
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
    /// The samples, in the metric's own unit ([`Metric::unit`]), because the buckets are in that unit.
    pub distribution: Box<Distribution>,
}

/// Messages that one subscription has lost since the event before.
#[derive(Clone, Debug, PartialEq)]
pub struct Losses {
    /// The node and the topic.
    pub source: SourceName,
    /// The number of messages.
    pub lost: u64,
}

/// A diagnostic status.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The names of the parts with this status.
    pub name: DiagnosticName,
    /// How bad it is.
    pub level: Level,
    /// If it is the health of a source of statistics.
    pub health: Option<SourceHealth>,
}

/// The health of a source, as its node or topic_monitor judges it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceHealth {
    /// The source.
    pub source: SourceName,
    /// Messages per second, counted over as many windows as that takes.
    pub rate: Option<f64>,
    /// The limits that its conditions set; at most one of a kind.
    pub limits: Vec<ExpectedLimit>,
    /// The windows that the judge has judged so far, by level. `None` if it does not say.
    pub windows: Option<[u64; 4]>,
}

/// A limit of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedLimit {
    /// Whether it is a limit for WARN or for ERROR.
    pub is_error: bool,
    /// The value.
    pub quantity: Quantity,
    /// Whether the value may not be below it, or else not above it.
    pub is_lower: bool,
    /// The limit, in the base unit.
    pub value: f64,
}

/// A part with a diagnostic status. Names are without control characters, and at most 256 characters each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiagnosticName {
    /// `name`, for example `/listener: Topic statistics`.
    pub name: Box<str>,
    /// `hardware_id`; often empty.
    pub hardware_id: Box<str>,
}

/// The level of a diagnostic status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is well.
    Ok,
    /// Something deserves attention.
    Warn,
    /// Something is wrong.
    Error,
    /// Nothing was reported for too long.
    Stale,
}

/// Why a message was refused. Names from the network are not in it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// A name is too long.
    #[error(transparent)]
    Name(#[from] NameTooLong),
    /// The number of samples is missing or impossible.
    #[error("The sample count is {count:?}: it has to be a whole number from 0 to {MAX_COUNT:e}")]
    Count {
        /// The count.
        count: Option<f64>,
    },
    /// A figure is impossible.
    #[error("The {figure} is {value}: it has to be NaN, or from {least:e} to {MAX_FIGURE:e}")]
    Figure {
        /// Which one.
        figure: &'static str,
        /// Its value.
        value: f64,
        /// The least value that it can have.
        least: f64,
    },
    /// The figures contradict each other.
    #[error("The minimum is {min}, the average {mean} and the maximum {max}: they have to be in order")]
    Order {
        /// The minimum.
        min: f64,
        /// The average.
        mean: f64,
        /// The maximum.
        max: f64,
    },
    /// A distribution is of no metric of the library, or not in its unit.
    #[error("The distribution is of no known metric, or not in its unit")]
    DistributionMetric,
    /// A distribution is impossible.
    #[error("The distribution is invalid: {0}")]
    Distribution(String),
    /// The level of a diagnostic status is unknown.
    #[error("The level is {level}: it has to be from 0 to 3")]
    Level {
        /// The level.
        level: u8,
    },
}

impl Received {
    /// Returns the name of the node that the message is about. A diagnostic status that is no health of a source is
    /// about the node that reports it.
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
    /// Returns the name of the node that reports: what is before the colon, as diagnostic_updater, the library and
    /// topic_monitor write it.
    pub fn judge(&self) -> &str {
        self.name.split_once(':').map_or(&*self.name, |(node, _)| node)
    }
}

impl SourceName {
    /// Returns a name from a `measurement_source_name`.
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
    /// Returns a metric, and the factor from the unit of its message to its base unit.
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

    /// Returns the metric of the library.
    pub fn known(&self) -> Option<Metric> {
        match self {
            Self::Known(metric) => Some(*metric),
            Self::Other { .. } => None,
        }
    }
}

impl Unit {
    /// Returns the base unit of a unit, and the factor to it.
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

impl MetricWindow {
    /// Checks a message.
    pub fn new(message: &MetricsMessage) -> Result<Self, Refused> {
        check_names(&[&message.measurement_source_name, &message.metrics_source, &message.unit])?;
        let (metric, factor) = MetricName::new(&message.metrics_source, &message.unit);
        Ok(Self {
            source: SourceName::new(&message.measurement_source_name),
            metric,
            window: Window::new(&message.window_start, &message.window_stop),
            figures: Figures::new(message, factor)?,
        })
    }
}

#[cfg(feature = "interfaces")]
impl MetricDistribution {
    /// Checks a message.
    pub fn new(message: &MetricsDistribution) -> Result<Self, Refused> {
        check_names(&[&message.measurement_source_name, &message.metrics_source, &message.unit])?;
        let (metric, distribution) = read_distribution(message).map_err(|error| match error {
            UnreadableDistribution::Metric | UnreadableDistribution::Unit { .. } => {
                Refused::DistributionMetric
            }
            UnreadableDistribution::Distribution(error) => Refused::Distribution(error.to_string()),
        })?;
        let samples = distribution.count() as f64;
        if samples > MAX_COUNT {
            return Err(Refused::Count { count: Some(samples) });
        }
        for (figure, value) in [("minimum", message.minimum), ("maximum", message.maximum)] {
            check_figure(figure, value, -MAX_FIGURE)?;
        }
        // `from_parts` takes the sum as it is.
        let mean = message.sum / samples;
        if samples > 0.0 && mean.is_nan() {
            return Err(Refused::Figure { figure: "sum", value: mean, least: -MAX_FIGURE });
        }
        if samples > 0.0 && !is_between(message.minimum, mean, message.maximum) {
            return Err(Refused::Order { min: message.minimum, mean, max: message.maximum });
        }
        Ok(Self {
            source: SourceName::new(&message.measurement_source_name),
            metric,
            window: Window::new(&message.window_start, &message.window_stop),
            distribution: Box::new(distribution),
        })
    }
}

#[cfg(feature = "interfaces")]
impl Losses {
    /// Checks the losses of one topic of a node.
    pub fn new(node: &str, losses: &MessagesLostEventTopicStat) -> Result<Self, Refused> {
        check_names(&[node, &losses.topic_name])?;
        let lost = losses.messages_lost;
        if lost as f64 > MAX_COUNT {
            return Err(Refused::Count { count: Some(lost as f64) });
        }
        let source = SourceName { node: printable(node), name: Some(printable(&losses.topic_name)) };
        Ok(Self { source, lost })
    }
}

impl Diagnostic {
    /// Checks a status.
    pub fn new(status: &DiagnosticStatus) -> Result<Self, Refused> {
        check_names(&[&status.name, &status.hardware_id])?;
        let level = match status.level {
            0 => Level::Ok,
            1 => Level::Warn,
            2 => Level::Error,
            3 => Level::Stale,
            level => return Err(Refused::Level { level }),
        };
        let name =
            DiagnosticName { name: printable(&status.name), hardware_id: printable(&status.hardware_id) };
        Ok(Self { name, level, health: SourceHealth::new(status) })
    }
}

impl SourceHealth {
    /// The longest text of conditions that is read.
    const MAX_TEXT: usize = 10_000;
    /// How many limits are read.
    const MAX_LIMITS: usize = 50;

    /// Returns the health in a status of the library or of topic_monitor. `None` for other statuses.
    fn new(status: &DiagnosticStatus) -> Option<Self> {
        let value =
            |key: &str| status.values.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str());
        let source = value("measurement_source_name").filter(|name| check_names(&[name]).is_ok())?;
        let rate = value("Actual frequency (Hz)").and_then(|rate| rate.parse().ok());
        let mut limits: Vec<ExpectedLimit> = vec![];
        for (key, is_error) in [("warn_unless", false), ("error_unless", true)] {
            let text = value(key).filter(|text| text.len() <= Self::MAX_TEXT).unwrap_or_default();
            // Conditions of a later version may not be readable.
            let conditions = text.parse::<Conditions>().ok();
            for condition in conditions.iter().flat_map(Conditions::iter) {
                let factor = Unit::new(condition.quantity().unit()).1;
                for (limit, is_lower) in [(condition.lower_limit(), true), (condition.upper_limit(), false)] {
                    if let Some(value) = limit.map(|limit| limit * factor).filter(|value| value.is_finite()) {
                        let quantity = condition.quantity();
                        add_limit(&mut limits, ExpectedLimit { is_error, quantity, is_lower, value });
                    }
                }
            }
        }
        limits.truncate(Self::MAX_LIMITS);
        let rate = rate.filter(|rate| (0.0..=MAX_FIGURE).contains(rate));
        let windows = value(WINDOWS_JUDGED).and_then(|counts| {
            let counts: Vec<u64> = counts.split(' ').map_while(|count| count.parse().ok()).collect();
            counts.try_into().ok()
        });
        let is_possible = |counts: &[u64; 4]| counts.iter().all(|count| *count as f64 <= MAX_COUNT);
        let windows = windows.filter(is_possible);
        Some(Self { source: SourceName::new(source), rate, limits, windows })
    }
}

/// Adds a limit, or keeps the narrower one of two.
fn add_limit(limits: &mut Vec<ExpectedLimit>, limit: ExpectedLimit) {
    let kind = |expected: &ExpectedLimit| (expected.is_error, expected.quantity, expected.is_lower);
    match limits.iter_mut().find(|known| kind(known) == kind(&limit)) {
        Some(same) if limit.is_lower => same.value = same.value.max(limit.value),
        Some(same) => same.value = same.value.min(limit.value),
        None => limits.push(limit),
    }
}

impl Window {
    fn new(start: &Time, stop: &Time) -> Self {
        Self { start: nanoseconds(start), stop: nanoseconds(stop) }
    }
}

impl Figures {
    fn new(message: &MetricsMessage, factor: f64) -> Result<Self, Refused> {
        let DataPoints {
            average: mean,
            minimum: min,
            maximum: max,
            standard_deviation: std_dev,
            sample_count,
        } = DataPoints::new(&message.statistics);
        let is_count = |count: &f64| (0.0..=MAX_COUNT).contains(count) && count.fract() == 0.0;
        let count = sample_count.filter(is_count).ok_or(Refused::Count { count: sample_count })?;
        check_figure("average", mean, -MAX_FIGURE)?;
        check_figure("minimum", min, -MAX_FIGURE)?;
        check_figure("maximum", max, -MAX_FIGURE)?;
        check_figure("standard deviation", std_dev, 0.0)?;
        if !is_between(min, mean, max) {
            return Err(Refused::Order { min, mean, max });
        }
        let figure = |value: f64| (!value.is_nan()).then_some(value * factor);
        Ok(Self {
            mean: figure(mean),
            min: figure(min),
            max: figure(max),
            std_dev: figure(std_dev),
            count: count as u64,
        })
    }

    /// Returns the sum of the samples; `None` if their average is unknown.
    pub fn sum(&self) -> Option<f64> {
        self.mean.map(|mean| mean * self.count as f64)
    }
}

/// Accepts NaN: nothing was measured.
fn check_figure(figure: &'static str, value: f64, least: f64) -> Result<(), Refused> {
    if value.is_nan() || (least..=MAX_FIGURE).contains(&value) {
        Ok(())
    } else {
        Err(Refused::Figure { figure, value, least })
    }
}

/// Returns whether figures are in order. An average is rounded; NaN is in any order.
fn is_between(min: f64, mean: f64, max: f64) -> bool {
    let rounding = 1e-9 * min.abs().max(max.abs());
    !(min > max || mean < min - rounding || mean > max + rounding)
}

fn printable(name: &str) -> Box<str> {
    Escaped(name).to_string().into_boxed_str()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use ros_env::statistics_msgs::msg::StatisticDataPoint;
    use topic_statistics_observe::ros::statistics::MAX_NAME;

    /// A message with a window of one second that stops at `stop` (s), and five figures in the order of rclcpp.
    pub fn message(source: &str, metric: &str, unit: &str, stop: i32, figures: [f64; 5]) -> MetricsMessage {
        let point = |(data_type, data)| StatisticDataPoint { data_type, data };
        MetricsMessage {
            measurement_source_name: source.to_owned(),
            metrics_source: metric.to_owned(),
            unit: unit.to_owned(),
            window_start: Time { sec: stop - 1, nanosec: 0 },
            window_stop: Time { sec: stop, nanosec: 0 },
            statistics: [1, 3, 2, 5, 4].into_iter().zip(figures).map(point).collect(),
        }
    }

    /// Average, maximum, minimum, count, standard deviation: 1.5 ms, and so on.
    pub const FIGURES: [f64; 5] = [1.5, 4.0, 1.0, 50.0, 0.5];

    fn with(change: impl FnOnce(&mut [f64; 5])) -> Result<MetricWindow, Refused> {
        let mut figures = FIGURES;
        change(&mut figures);
        MetricWindow::new(&message("/listener:/imu", "message_age", "ms", 100, figures))
    }

    #[test]
    fn milliseconds_become_seconds() {
        let window = with(|_| ()).unwrap();
        assert_eq!(window.metric, MetricName::Known(Metric::MessageAge));
        assert_eq!(window.source, SourceName { node: "/listener".into(), name: Some("/imu".into()) });
        let figures = window.figures;
        assert_eq!((figures.mean, figures.min, figures.max), (Some(0.0015), Some(0.001), Some(0.004)));
        assert_eq!((figures.std_dev, figures.count, figures.sum()), (Some(0.0005), 50, Some(0.075)));
        assert_eq!(window.window, Window { start: 99_000_000_000, stop: 100_000_000_000 });
        // What was not measured is absent.
        let nothing = with(|figures| *figures = [f64::NAN, f64::NAN, f64::NAN, 0.0, f64::NAN]).unwrap();
        assert_eq!(nothing.figures, Figures::default());
    }

    #[test]
    fn impossible_figures_are_refused() {
        const INFINITE: f64 = f64::INFINITY;
        let of_each: [&[f64]; 5] = [
            &[INFINITE, 1e300, 0.5, 4.1],
            &[-INFINITE],
            &[4.5],
            &[-1.0, 0.5, f64::NAN, INFINITE, 1e13],
            &[-0.1, INFINITE],
        ];
        for (index, value) in
            (0..).zip(of_each).flat_map(|(index, values)| values.iter().map(move |value| (index, *value)))
        {
            let refused = with(|figures| figures[index] = value).unwrap_err().to_string();
            assert!(refused.contains(" has to be ") || refused.contains(" have to be "), "{refused}");
        }
        let mut no_count = message("a", "message_age", "ms", 1, FIGURES);
        no_count.statistics.retain(|point| point.data_type != 5);
        assert_eq!(MetricWindow::new(&no_count), Err(Refused::Count { count: None }));
    }

    #[test]
    fn a_metric_in_a_unit_of_another_dimension_is_another_metric() {
        let other = |name: &str, unit| MetricName::Other { name: name.into(), unit };
        for (name, unit, expected) in [
            ("message_age", "ns", MetricName::Known(Metric::MessageAge)),
            ("message_age", "m", other("message_age", Unit::Other("m".into()))),
            ("jitter\n", "us", other("jitter\\u{a}", Unit::Seconds)),
        ] {
            assert_eq!(MetricWindow::new(&message("a", name, unit, 1, FIGURES)).unwrap().metric, expected);
        }
    }

    #[test]
    fn names_are_split_at_the_first_colon_and_bounded() {
        for (text, node, name) in [
            ("cpp_listener", "cpp_listener", None),
            ("cpp_listener:", "cpp_listener", None), // they would have the same labels
            ("/b:x:y", "/b", Some("x:y")),
        ] {
            let source = SourceName { node: node.into(), name: name.map(Into::into) };
            assert_eq!(SourceName::new(text), source);
            assert_eq!(source.to_string(), text.trim_end_matches(':'));
        }
        let long = "x".repeat(MAX_NAME + 1);
        for [source, metric, unit] in [[&*long, "a", "b"], ["a", &long, "b"], ["a", "b", &long]] {
            let refused = MetricWindow::new(&message(source, metric, unit, 1, FIGURES)).unwrap_err();
            assert_eq!(refused, Refused::Name(NameTooLong { bytes: MAX_NAME + 1 }));
        }
    }

    /// The distribution of ten ages of 1.5 ms, in the window of `message`.
    pub fn distribution(source: &str, stop: i32) -> MetricsDistribution {
        MetricsDistribution {
            measurement_source_name: source.to_owned(),
            metrics_source: "message_age".to_owned(),
            unit: "ms".to_owned(),
            window_start: Time { sec: stop - 1, nanosec: 0 },
            window_stop: Time { sec: stop, nanosec: 0 },
            count: 10,
            sum: 15.0,
            minimum: 1.5,
            maximum: 1.5,
            scale: 8,
            positive_offset: 149,
            positive_counts: vec![10],
            ..Default::default()
        }
    }

    #[test]
    fn distributions_are_checked() {
        let right = MetricDistribution::new(&distribution("/listener:/imu", 1)).unwrap();
        assert_eq!((right.metric, right.distribution.count()), (Metric::MessageAge, 10));
        let refused = |change: &dyn Fn(&mut MetricsDistribution)| {
            let mut message = distribution("a", 1);
            change(&mut message);
            MetricDistribution::new(&message).unwrap_err()
        };
        assert_eq!(refused(&|message| message.unit = "s".to_owned()), Refused::DistributionMetric);
        assert_eq!(refused(&|message| message.metrics_source = "x".to_owned()), Refused::DistributionMetric);
        assert!(matches!(refused(&|message| message.count = 11), Refused::Distribution(_)));
        assert!(matches!(refused(&|message| message.sum = 16.0), Refused::Order { .. }));
        assert!(matches!(refused(&|message| message.unit = "x".repeat(MAX_NAME + 1)), Refused::Name(_)));
    }
}
