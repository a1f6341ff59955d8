// SPDX-License-Identifier: Apache-2.0

//! A node that publishes statistics with known figures.

use rclrs::*;
use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue},
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint},
    topic_statistics_interfaces::msg::{MessagesLostEvent, MessagesLostEventTopicStat, MetricsDistribution},
};
use test_support::{node, wait_for, Spinning};

/// The node and its publishers.
pub struct Robot {
    metrics: Publisher<MetricsMessage>,
    distributions: Publisher<MetricsDistribution>,
    losses: Publisher<MessagesLostEvent>,
    diagnostics: Publisher<DiagnosticArray>,
    _node: Node,
    _spinning: Spinning,
}

/// Average, maximum, minimum, sample count, standard deviation: in the order of rclcpp.
pub type Figures = [f64; 5];

impl Robot {
    /// Starts the node, and waits until all its topics are subscribed to.
    pub fn start() -> Self {
        let (executor, node) = node("robot", &[]);
        let robot = Self {
            metrics: node.create_publisher("/statistics".keep_last(5000)).unwrap(),
            distributions: node.create_publisher("/statistics/distribution".keep_last(1000)).unwrap(),
            losses: node.create_publisher("/events/messages_lost".keep_last(100)).unwrap(),
            diagnostics: node.create_publisher("/diagnostics".keep_last(100)).unwrap(),
            _node: node,
            _spinning: Spinning::start(executor),
        };
        robot.wait_for_subscriptions();
        robot
    }

    /// Waits until all its topics are subscribed to.
    pub fn wait_for_subscriptions(&self) {
        wait_for("subscriptions", || {
            [
                self.metrics.get_subscription_count(),
                self.distributions.get_subscription_count(),
                self.losses.get_subscription_count(),
                self.diagnostics.get_subscription_count(),
            ]
            .into_iter()
            .all(|count| count.unwrap() > 0)
        });
    }

    /// Returns how many subscriptions /statistics has.
    pub fn readers(&self) -> usize {
        self.metrics.get_subscription_count().unwrap()
    }

    /// Publishes a metric, in its unit or in ms, of the window of one second that stops at `stop`.
    pub fn publish(&self, source: &str, metric: &str, stop: i32, figures: Figures) {
        self.metrics.publish(message(source, metric, stop, figures)).unwrap();
    }

    pub fn publish_message(&self, message: MetricsMessage) {
        self.metrics.publish(message).unwrap();
    }

    /// Publishes the distribution of samples of a metric (in ms).
    pub fn publish_distribution(&self, source: &str, metric: &str, stop: i32, samples: &Distribution) {
        let [(positive_offset, positive_counts), (negative_offset, negative_counts)] =
            [dense(samples.positive()), dense(samples.negative())];
        let message = MetricsDistribution {
            measurement_source_name: source.to_owned(),
            metrics_source: metric.to_owned(),
            unit: "ms".to_owned(),
            window_start: Time { sec: stop - 1, nanosec: 0 },
            window_stop: Time { sec: stop, nanosec: 0 },
            count: samples.count(),
            sum: samples.sum(),
            minimum: samples.minimum(),
            maximum: samples.maximum(),
            scale: samples.scale(),
            zero_threshold: samples.zero_threshold(),
            zero_count: samples.zero_count(),
            positive_offset,
            positive_counts,
            negative_offset,
            negative_counts,
            ..Default::default()
        };
        self.distributions.publish(message).unwrap();
    }

    pub fn publish_losses(&self, node: &str, topic: &str, lost: u64) {
        let losses = MessagesLostEventTopicStat { topic_name: topic.to_owned(), messages_lost: lost };
        let message =
            MessagesLostEvent { node_name: node.to_owned(), messages_lost_statistics: vec![losses] };
        self.losses.publish(message).unwrap();
    }

    /// Publishes the health of a source, as the library does, after so many windows that were OK.
    pub fn publish_health(&self, source: &str, level: u8, error_unless: &str, windows: u64) {
        let windows = format!("{windows} 0 0 0");
        let pairs = [
            ("measurement_source_name", source),
            ("Actual frequency (Hz)", "41.500000"),
            ("error_unless", error_unless),
            ("windows_judged", &windows),
        ];
        let values = pairs.map(|(key, value)| KeyValue { key: key.to_owned(), value: value.to_owned() });
        let name = source.trim_start_matches('/').replacen(':', ": ", 1);
        let status = DiagnosticStatus { level, name, values: values.into(), ..Default::default() };
        self.diagnostics.publish(DiagnosticArray { status: vec![status], ..Default::default() }).unwrap();
    }

    pub fn publish_diagnostic(&self, name: &str, level: u8) {
        let status = DiagnosticStatus { level, name: name.to_owned(), ..Default::default() };
        self.diagnostics.publish(DiagnosticArray { status: vec![status], ..Default::default() }).unwrap();
    }
}

/// Returns a metric, in its unit or in ms, of the window of one second that stops at `stop`.
pub fn message(source: &str, metric: &str, stop: i32, figures: Figures) -> MetricsMessage {
    let point = |(data_type, data)| StatisticDataPoint { data_type, data };
    MetricsMessage {
        measurement_source_name: source.to_owned(),
        metrics_source: metric.to_owned(),
        unit: metric.parse().map_or("ms", |metric: Metric| metric.unit()).to_owned(),
        window_start: Time { sec: stop - 1, nanosec: 0 },
        window_stop: Time { sec: stop, nanosec: 0 },
        statistics: [1, 3, 2, 5, 4].into_iter().zip(figures).map(point).collect(),
    }
}

/// Returns the first bucket, and the counts of it and of all that follow.
fn dense(buckets: impl Iterator<Item = (i32, u64)>) -> (i32, Vec<u64>) {
    let (mut first, mut counts) = (None, vec![]);
    for (index, count) in buckets {
        let first = *first.get_or_insert(index);
        counts.resize((index - first) as usize, 0);
        counts.push(count);
    }
    (first.unwrap_or_default(), counts)
}
