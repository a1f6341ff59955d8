// SPDX-License-Identifier: Apache-2.0

//! Converts a metric of a finished window to a `MetricsMessage`.

use crate::interfaces::{
    builtin_interfaces::msg::Time,
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint, StatisticDataType},
};

use topic_statistics_core::{Metric, Summary, Window};

/// Returns the message of one metric of one window.
///
/// The data points are in rclcpp's order: average, maximum, minimum, sample count, standard deviation
/// (libstatistics_collector's `GenerateStatisticMessage`).
pub fn metrics_message(source: &str, metric: Metric, window: Window, summary: &Summary) -> MetricsMessage {
    let point = |data_type, data| StatisticDataPoint { data_type, data };
    MetricsMessage {
        measurement_source_name: source.to_owned(),
        metrics_source: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        window_start: time(window.start.as_nanoseconds()),
        window_stop: time(window.stop.as_nanoseconds()),
        statistics: vec![
            point(StatisticDataType::STATISTICS_DATA_TYPE_AVERAGE, summary.average),
            point(StatisticDataType::STATISTICS_DATA_TYPE_MAXIMUM, summary.maximum),
            point(StatisticDataType::STATISTICS_DATA_TYPE_MINIMUM, summary.minimum),
            point(StatisticDataType::STATISTICS_DATA_TYPE_SAMPLE_COUNT, summary.sample_count as f64),
            point(StatisticDataType::STATISTICS_DATA_TYPE_STDDEV, summary.standard_deviation),
        ],
    }
}

/// Converts nanoseconds since the epoch to a ROS time. `nanosec` counts up from `sec`, also for times before the epoch.
///
/// Times after 2038 overflow `sec`. For these times, `sec` has its largest value.
pub(crate) fn time(nanoseconds: i64) -> Time {
    const SECOND: i64 = 1_000_000_000;
    Time {
        sec: i32::try_from(nanoseconds.div_euclid(SECOND)).unwrap_or(i32::MAX),
        nanosec: nanoseconds.rem_euclid(SECOND) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_points_are_in_rclcpps_order() {
        let mut summary = Summary::default();
        (summary.average, summary.minimum, summary.maximum) = (1.0, 0.5, 2.0);
        (summary.standard_deviation, summary.sample_count) = (0.25, 7);
        let window = Window::from_nanoseconds(1_500_000_000, 2_500_000_001);

        let message = metrics_message("/imu_listener:/imu", Metric::MessageAge, window, &summary);

        let points: Vec<_> = message.statistics.iter().map(|point| (point.data_type, point.data)).collect();
        assert_eq!(points, [(1, 1.0), (3, 2.0), (2, 0.5), (5, 7.0), (4, 0.25)]);
        assert_eq!((message.metrics_source.as_str(), message.unit.as_str()), ("message_age", "ms"));
        assert_eq!(message.window_start, Time { sec: 1, nanosec: 500_000_000 });
        assert_eq!(message.window_stop, Time { sec: 2, nanosec: 500_000_001 });
    }

    #[test]
    fn a_time_before_the_epoch_counts_up_too() {
        assert_eq!(time(-1), Time { sec: -1, nanosec: 999_999_999 });
    }
}
