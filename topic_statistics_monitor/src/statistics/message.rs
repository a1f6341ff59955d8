// SPDX-License-Identifier: Apache-2.0

//! A message on /statistics or /statistics/distribution, with its names and figures checked.

use std::time::Instant;

use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::{statistics_msgs::msg::MetricsMessage, topic_statistics_interfaces::msg::MetricsDistribution};
use topic_statistics_programs::statistics::{check_names, nanoseconds, read_distribution, DataPoints};
use topic_statistics_views::{
    format,
    row::{Figures, MetricFigures},
};

/// One metric in one window of a source, as it was received.
#[derive(Clone, Debug)]
pub struct SourceMetric {
    /// When the message was received.
    pub received_at: Instant,
    /// The `measurement_source_name`.
    pub source: String,
    /// The start of the window, as nanoseconds since the epoch.
    pub start: i64,
    /// The stop of the window, as nanoseconds since the epoch.
    pub stop: i64,
    /// The metric and its figures.
    pub metric: MetricFigures,
}

impl SourceMetric {
    /// Checks a message. `None` if one of its names is too long.
    pub fn new(message: MetricsMessage, received_at: Instant) -> Option<Self> {
        let names = [&message.measurement_source_name, &message.metrics_source, &message.unit];
        check_names(&names.map(String::as_str)).ok()?;
        Some(Self {
            received_at,
            start: nanoseconds(&message.window_start),
            stop: nanoseconds(&message.window_stop),
            metric: MetricFigures {
                figures: figures(DataPoints::new(&message.statistics)),
                name: message.metrics_source,
                unit: message.unit,
            },
            source: message.measurement_source_name,
        })
    }
}

/// The distribution of one metric in one window of a source, as it was received.
#[derive(Clone, Debug)]
pub struct SourceDistribution {
    /// When the message was received.
    pub received_at: Instant,
    /// The `measurement_source_name`.
    pub source: String,
    /// The metric.
    pub metric: Metric,
    /// Boxed, because many messages can wait.
    pub distribution: Box<Distribution>,
}

impl SourceDistribution {
    /// Checks a message. Errors with the mistake and the valid values, in printable characters.
    pub fn new(message: MetricsDistribution, received_at: Instant) -> Result<Self, String> {
        let names = [&message.measurement_source_name, &message.metrics_source, &message.unit];
        check_names(&names.map(String::as_str)).map_err(|error| error.to_string())?;
        let (metric, distribution) = read_distribution(&message).map_err(|error| {
            let [source, name, _] = names.map(|name| format::name(name));
            format!("{name} of {source}: {error}")
        })?;
        let distribution = Box::new(distribution);
        Ok(Self { received_at, source: message.measurement_source_name, metric, distribution })
    }
}

/// Returns the figures of a message. Infinite and missing ones are NaN; a negative or missing count is 0.
fn figures(points: DataPoints) -> Figures {
    let finite = |value: f64| if value.is_finite() { value } else { f64::NAN };
    Figures {
        mean: finite(points.average),
        min: finite(points.minimum),
        max: finite(points.maximum),
        std_dev: finite(points.standard_deviation),
        count: points.sample_count.map_or(0, |count| finite(count) as u64),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use ros_env::{builtin_interfaces::msg::Time, statistics_msgs::msg::StatisticDataPoint};
    use topic_statistics_programs::statistics::MAX_NAME;
    use topic_statistics_views::testing::at;

    /// A metric of a window of one second that ends at `stop` (s), received then.
    pub fn message(source: &str, metric: &str, stop: i64, average: f64) -> SourceMetric {
        let point = |data_type, data| StatisticDataPoint { data_type, data };
        let message = MetricsMessage {
            measurement_source_name: source.to_owned(),
            metrics_source: metric.to_owned(),
            unit: "ms".to_owned(),
            window_start: Time { sec: stop as i32 - 1, nanosec: 0 },
            window_stop: Time { sec: stop as i32, nanosec: 0 },
            statistics: vec![point(1, average), point(5, 50.0)],
        };
        SourceMetric::new(message, at(stop)).unwrap()
    }

    /// The distribution of ten ages, received at `second`.
    pub fn distribution(source: &str) -> MetricsDistribution {
        MetricsDistribution {
            measurement_source_name: source.to_owned(),
            metrics_source: "message_age".to_owned(),
            unit: "ms".to_owned(),
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
        let right = SourceDistribution::new(distribution("/listener:/imu"), at(1)).unwrap();
        assert_eq!((right.metric, right.distribution.count()), (Metric::MessageAge, 10));
        assert_eq!(right.distribution.quantile(0.5), 1.5);
        let error = |change: &dyn Fn(&mut MetricsDistribution)| {
            let mut message = distribution("/x\u{1b}[2J");
            change(&mut message);
            SourceDistribution::new(message, at(1)).unwrap_err()
        };
        assert_eq!(
            error(&|message| message.scale = 9),
            "message_age of /x\\u{1b}[2J: The scale is 9: it has to be from 2 to 8"
        );
        assert!(error(&|message| message.count = 11).contains("The count is 11"));
        assert!(error(&|message| message.unit = "s".to_owned()).contains("it has to be ms"));
        assert!(error(&|message| message.metrics_source = "jitter\n".to_owned()).contains("jitter\\u{a} of "));
        assert!(error(&|message| message.unit = "x".repeat(100_000)).contains("100000 bytes"));
    }

    #[test]
    fn names_that_are_too_long_are_not_accepted() {
        let long = "x".repeat(MAX_NAME + 1);
        for message in [
            MetricsMessage { measurement_source_name: long.clone(), ..Default::default() },
            MetricsMessage { metrics_source: long.clone(), ..Default::default() },
            MetricsMessage { unit: long.clone(), ..Default::default() },
        ] {
            assert!(SourceMetric::new(message, at(0)).is_none());
        }
    }
}
