// SPDX-License-Identifier: Apache-2.0

//! A message on /statistics, with its names and figures checked.

use std::time::Instant;

use ros_env::{builtin_interfaces::msg::Time, statistics_msgs::msg::MetricsMessage};

use crate::row::{Figures, MetricFigures};

/// One metric in one window of a source, as it was received.
#[derive(Clone, Debug)]
pub struct SourceMetric {
    pub received_at: Instant,
    /// The `measurement_source_name`.
    pub source: String,
    /// The start of the window, as nanoseconds since the epoch.
    pub start: i64,
    /// The stop of the window, as nanoseconds since the epoch.
    pub stop: i64,
    pub metric: MetricFigures,
}

impl SourceMetric {
    /// The longest name that is accepted, in bytes: a node's name and a topic's name, with a colon between them.
    pub const MAX_NAME: usize = 511;

    /// Checks a message. `None` if one of its names is too long.
    pub fn new(message: MetricsMessage, received_at: Instant) -> Option<Self> {
        let names = [&message.measurement_source_name, &message.metrics_source, &message.unit];
        if names.iter().any(|name| name.len() > Self::MAX_NAME) {
            return None;
        }
        let nanoseconds = |time: &Time| i64::from(time.sec) * 1_000_000_000 + i64::from(time.nanosec);
        Some(Self {
            received_at,
            start: nanoseconds(&message.window_start),
            stop: nanoseconds(&message.window_stop),
            metric: MetricFigures {
                figures: figures(&message),
                name: message.metrics_source,
                unit: message.unit,
            },
            source: message.measurement_source_name,
        })
    }
}

/// Returns the figures of a message. Infinite and missing ones are NaN; a negative or missing count is 0.
fn figures(message: &MetricsMessage) -> Figures {
    let mut figures = Figures::NONE;
    for point in &message.statistics {
        let value = if point.data.is_finite() { point.data } else { f64::NAN };
        match point.data_type {
            1 => figures.mean = value,
            2 => figures.min = value,
            3 => figures.max = value,
            4 => figures.std_dev = value,
            5 => figures.count = value as u64,
            _ => {}
        }
    }
    figures
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::row::tests::at;
    use ros_env::statistics_msgs::msg::StatisticDataPoint;

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

    #[test]
    fn names_that_are_too_long_are_not_accepted() {
        let long = "x".repeat(SourceMetric::MAX_NAME + 1);
        for message in [
            MetricsMessage { measurement_source_name: long.clone(), ..Default::default() },
            MetricsMessage { metrics_source: long.clone(), ..Default::default() },
            MetricsMessage { unit: long.clone(), ..Default::default() },
        ] {
            assert!(SourceMetric::new(message, at(0)).is_none());
        }
    }
}
