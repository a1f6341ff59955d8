// SPDX-License-Identifier: Apache-2.0

//! Readers of the messages that nodes publish about their statistics. All programs use these readers.
//!
//! Any process can publish any values on topics such as `/statistics`. So the length of names is limited, and a wrong
//! message is refused as a whole, with the reason: one impossible value makes the other values untrustworthy.

mod diagnostic;
#[cfg(test)]
mod tests;

#[cfg(feature = "interfaces")]
use ros_env::topic_statistics_interfaces::msg::{MessagesLostEventTopicStat, MetricsDistribution};
use ros_env::{
    builtin_interfaces::msg::Time,
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint, StatisticDataType},
};
use topic_statistics_core::{
    collector::{Distribution, InvalidDistribution},
    Escaped, Metric, Summary, Window,
};

pub use diagnostic::{Diagnostic, ExecutorCallbacks, ExpectedLimit, SourceHealth};

/// The longest accepted name, in bytes: `NODE:INPUT_TOPIC:OUTPUT_TOPIC`, the name of a hop (messages through a node).
pub const MAX_NAME: usize = 3 * 255 + 2 * ":".len();
/// The largest accepted value, in the unit of its message. In milliseconds, this value is 30 000 years.
const MAX_FIGURE: f64 = 1e15;
/// The largest accepted number of samples in a window, and the largest accepted number of lost messages.
const MAX_COUNT: f64 = 1e12;

/// One metric of one finished window of one source of statistics, from the topic `/statistics`.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricWindow {
    /// The `measurement_source_name`, with any characters.
    pub source: String,
    /// The `metrics_source`, with any characters.
    pub metric: String,
    /// The unit of the statistics, with any characters.
    pub unit: String,
    /// The times are on the system clock of the node's host. If this clock was stepped back, the stop can be before the
    /// start.
    pub window: Window,
    /// The statistics, in `unit`. NaN means that a value was not measured.
    pub figures: Summary,
}

/// The distribution of one metric of one finished window of one source, from `/statistics/distribution`.
#[derive(Clone, Debug)]
pub struct MetricDistribution {
    /// The `measurement_source_name`, with any characters.
    pub source: String,
    pub metric: Metric,
    pub window: Window,
    /// The samples, in the unit of the metric. Boxed, so that the messages that wait in a queue are small.
    pub distribution: Box<Distribution>,
}

/// Messages of a topic that a node has lost since its previous event, from `/events/messages_lost`.
#[derive(Clone, Debug, PartialEq)]
pub struct Losses {
    /// The fully qualified name of the node, with any characters.
    pub node: String,
    pub topic: String,
    pub lost: u64,
}

/// Why a message was refused. The text contains no names from the message, and units are escaped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    #[error("a name has {bytes} bytes; at most {MAX_NAME} are read")]
    Name { bytes: usize },
    #[error("The sample count is {count:?}: it has to be a whole number from 0 to {MAX_COUNT:e}")]
    Count { count: Option<f64> },
    #[error("The {figure} is {value}: it has to be NaN, or from {least:e} to {MAX_FIGURE:e}")]
    Figure { figure: &'static str, value: f64, least: f64 },
    #[error("The minimum is {min}, the average {mean} and the maximum {max}: they have to be in order")]
    Order { min: f64, mean: f64, max: f64 },
    #[error("The distribution is of no known metric")]
    Metric,
    #[error("The unit is {unit}: it has to be {}", metric.unit(), unit = Escaped(unit))]
    Unit { unit: String, metric: Metric },
    #[error(transparent)]
    Distribution(#[from] InvalidDistribution),
    #[error("The level is {level}: it has to be from 0 to 3")]
    Level { level: u8 },
}

impl MetricWindow {
    pub fn new(message: &MetricsMessage) -> Result<Self, Refused> {
        let MetricsMessage { measurement_source_name: source, metrics_source: metric, unit, .. } = message;
        check_names(&[source, metric, unit])?;
        Ok(Self {
            source: source.clone(),
            metric: metric.clone(),
            unit: unit.clone(),
            window: window(&message.window_start, &message.window_stop),
            figures: figures(&message.statistics)?,
        })
    }
}

#[cfg(feature = "interfaces")]
impl MetricDistribution {
    pub fn new(message: &MetricsDistribution) -> Result<Self, Refused> {
        use topic_statistics_core::collector::DistributionParts;

        check_names(&[&message.measurement_source_name, &message.metrics_source, &message.unit])?;
        let metric: Metric = message.metrics_source.parse().map_err(|_| Refused::Metric)?;
        if message.unit != metric.unit() {
            return Err(Refused::Unit { unit: message.unit.clone(), metric });
        }
        let mut parts = DistributionParts::default();
        (parts.count, parts.sum) = (message.count, message.sum);
        (parts.minimum, parts.maximum) = (message.minimum, message.maximum);
        (parts.scale, parts.zero_threshold) = (message.scale, message.zero_threshold);
        parts.zero_count = message.zero_count;
        (parts.positive_offset, parts.positive_counts) = (message.positive_offset, &message.positive_counts);
        (parts.negative_offset, parts.negative_counts) = (message.negative_offset, &message.negative_counts);
        let distribution = Distribution::from_parts(&parts)?;
        let samples = count(Some(message.count as f64))? as f64;
        check_figure("minimum", message.minimum, -MAX_FIGURE)?;
        check_figure("maximum", message.maximum, -MAX_FIGURE)?;
        if samples > 0.0 {
            // `from_parts` does not check the sum of the samples, so the mean is checked here.
            let mean = message.sum / samples;
            if mean.is_nan() {
                return Err(Refused::Figure { figure: "sum", value: mean, least: -MAX_FIGURE });
            }
            check_order(message.minimum, mean, message.maximum)?;
        }
        Ok(Self {
            source: message.measurement_source_name.clone(),
            metric,
            window: window(&message.window_start, &message.window_stop),
            distribution: Box::new(distribution),
        })
    }
}

#[cfg(feature = "interfaces")]
impl Losses {
    pub fn new(node: &str, losses: &MessagesLostEventTopicStat) -> Result<Self, Refused> {
        check_names(&[node, &losses.topic_name])?;
        let lost = count(Some(losses.messages_lost as f64)).map(|_| losses.messages_lost)?;
        Ok(Self { node: node.to_owned(), topic: losses.topic_name.clone(), lost })
    }
}

fn check_names(names: &[&str]) -> Result<(), Refused> {
    let long = names.iter().find(|name| name.len() > MAX_NAME);
    long.map_or(Ok(()), |name| Err(Refused::Name { bytes: name.len() }))
}

fn window(start: &Time, stop: &Time) -> Window {
    let nanoseconds = |time: &Time| i64::from(time.sec) * 1_000_000_000 + i64::from(time.nanosec);
    Window::from_nanoseconds(nanoseconds(start), nanoseconds(stop))
}

/// Reads the statistics of a message. If a message has several values of the same type, the last value is used.
fn figures(points: &[StatisticDataPoint]) -> Result<Summary, Refused> {
    let (mut figures, mut samples) = (Summary::default(), None);
    for StatisticDataPoint { data_type, data } in points {
        match *data_type {
            StatisticDataType::STATISTICS_DATA_TYPE_AVERAGE => figures.average = *data,
            StatisticDataType::STATISTICS_DATA_TYPE_MINIMUM => figures.minimum = *data,
            StatisticDataType::STATISTICS_DATA_TYPE_MAXIMUM => figures.maximum = *data,
            StatisticDataType::STATISTICS_DATA_TYPE_STDDEV => figures.standard_deviation = *data,
            StatisticDataType::STATISTICS_DATA_TYPE_SAMPLE_COUNT => samples = Some(*data),
            _ => {}
        }
    }
    figures.sample_count = count(samples)?;
    check_figure("average", figures.average, -MAX_FIGURE)?;
    check_figure("minimum", figures.minimum, -MAX_FIGURE)?;
    check_figure("maximum", figures.maximum, -MAX_FIGURE)?;
    check_figure("standard deviation", figures.standard_deviation, 0.0)?;
    check_order(figures.minimum, figures.average, figures.maximum)?;
    Ok(figures)
}

fn count(count: Option<f64>) -> Result<u64, Refused> {
    let is_possible = |count: &f64| (0.0..=MAX_COUNT).contains(count) && count.fract() == 0.0;
    count.filter(is_possible).map(|count| count as u64).ok_or(Refused::Count { count })
}

/// Errors if a value is out of range. NaN is accepted: the value was not measured.
fn check_figure(figure: &'static str, value: f64, least: f64) -> Result<(), Refused> {
    if value.is_nan() || (least..=MAX_FIGURE).contains(&value) {
        Ok(())
    } else {
        Err(Refused::Figure { figure, value, least })
    }
}

/// Errors unless `min <= mean <= max`. The check tolerates the rounding of the average, and accepts NaN.
fn check_order(min: f64, mean: f64, max: f64) -> Result<(), Refused> {
    let rounding = 1e-9 * min.abs().max(max.abs());
    if min > max || mean < min - rounding || mean > max + rounding {
        return Err(Refused::Order { min, mean, max });
    }
    Ok(())
}
