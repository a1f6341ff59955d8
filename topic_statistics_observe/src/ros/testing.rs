// SPDX-License-Identifier: Apache-2.0

//! Messages as nodes publish them, for the tests of this package and of the programs.

#[cfg(feature = "interfaces")]
use ros_env::topic_statistics_interfaces::msg::MetricsDistribution;
use ros_env::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint},
};

/// Average, maximum, minimum, sample count and standard deviation, in the order of rclcpp, of 50 samples around 1.5.
pub const FIGURES: [f64; 5] = [1.5, 4.0, 1.0, 50.0, 0.5];

/// Returns a window of one second that stops at `stop` (s), with five statistics in the order of rclcpp.
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

/// Returns the distribution of ten ages of 1.5 ms in a window of one second that stops at `stop` (s).
#[cfg(feature = "interfaces")]
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

pub fn status(name: &str, level: u8, values: &[(&str, &str)]) -> DiagnosticStatus {
    let values = values.iter().map(|(key, value)| KeyValue { key: (*key).into(), value: (*value).into() });
    DiagnosticStatus { level, name: name.to_owned(), values: values.collect(), ..Default::default() }
}
