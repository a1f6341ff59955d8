// SPDX-License-Identifier: Apache-2.0

//! The messages on `/statistics` and `/statistics/distribution`.
//!
//! Anybody can publish anything there. Each program decides what it does with a wrong message.

use ros_env::{
    builtin_interfaces::msg::Time,
    statistics_msgs::msg::{StatisticDataPoint, StatisticDataType},
};
use topic_statistics_core::{collector::InvalidDistribution, Escaped, Metric};

/// The longest name that is accepted, in bytes: that of a hop, `NODE:TOPIC:TOPIC`.
pub const MAX_NAME: usize = 3 * 255 + 2 * ":".len();

/// A name is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has {bytes} bytes; at most {MAX_NAME} are read")]
pub struct NameTooLong {
    /// The length of the name.
    pub bytes: usize,
}

/// Errors with the first name that is longer than [`MAX_NAME`].
pub fn check_names(names: &[&str]) -> Result<(), NameTooLong> {
    let long = names.iter().find(|name| name.len() > MAX_NAME);
    long.map_or(Ok(()), |name| Err(NameTooLong { bytes: name.len() }))
}

/// Returns a time in nanoseconds since the epoch.
pub fn nanoseconds(time: &Time) -> i64 {
    i64::from(time.sec) * 1_000_000_000 + i64::from(time.nanosec)
}

/// The data points of a `MetricsMessage` as received: any numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataPoints {
    /// The average; NaN if the message has none, as the next three.
    pub average: f64,
    /// The minimum.
    pub minimum: f64,
    /// The maximum.
    pub maximum: f64,
    /// The standard deviation.
    pub standard_deviation: f64,
    /// The number of samples. `None` if the message has none.
    pub sample_count: Option<f64>,
}

impl DataPoints {
    /// Reads the points of a message. The last one of each type counts.
    pub fn new(points: &[StatisticDataPoint]) -> Self {
        let nan = f64::NAN;
        let mut read =
            Self { average: nan, minimum: nan, maximum: nan, standard_deviation: nan, sample_count: None };
        for StatisticDataPoint { data_type, data } in points {
            match *data_type {
                StatisticDataType::STATISTICS_DATA_TYPE_AVERAGE => read.average = *data,
                StatisticDataType::STATISTICS_DATA_TYPE_MINIMUM => read.minimum = *data,
                StatisticDataType::STATISTICS_DATA_TYPE_MAXIMUM => read.maximum = *data,
                StatisticDataType::STATISTICS_DATA_TYPE_STDDEV => read.standard_deviation = *data,
                StatisticDataType::STATISTICS_DATA_TYPE_SAMPLE_COUNT => read.sample_count = Some(*data),
                _ => {}
            }
        }
        read
    }
}

/// Why a `MetricsDistribution` cannot be read. The text has no control characters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnreadableDistribution {
    /// The metric is unknown.
    #[error("not a metric of this library")]
    Metric,
    /// The unit is not the metric's.
    #[error("The unit is {unit}: it has to be {}", metric.unit(), unit = Escaped(unit))]
    Unit {
        /// The unit as received.
        unit: String,
        /// The metric.
        metric: Metric,
    },
    /// The figures are impossible.
    #[error(transparent)]
    Distribution(#[from] InvalidDistribution),
}

/// Reads a distribution, and the metric whose samples it has.
#[cfg(feature = "interfaces")]
pub fn read_distribution(
    message: &ros_env::topic_statistics_interfaces::msg::MetricsDistribution,
) -> Result<(Metric, topic_statistics_core::collector::Distribution), UnreadableDistribution> {
    use topic_statistics_core::collector::{Distribution, DistributionParts};

    let metric: Metric = message.metrics_source.parse().map_err(|_| UnreadableDistribution::Metric)?;
    if message.unit != metric.unit() {
        return Err(UnreadableDistribution::Unit { unit: message.unit.clone(), metric });
    }
    let mut parts = DistributionParts::default();
    (parts.count, parts.sum) = (message.count, message.sum);
    (parts.minimum, parts.maximum) = (message.minimum, message.maximum);
    (parts.scale, parts.zero_threshold) = (message.scale, message.zero_threshold);
    parts.zero_count = message.zero_count;
    (parts.positive_offset, parts.positive_counts) = (message.positive_offset, &message.positive_counts);
    (parts.negative_offset, parts.negative_counts) = (message.negative_offset, &message.negative_counts);
    Ok((metric, Distribution::from_parts(&parts)?))
}
