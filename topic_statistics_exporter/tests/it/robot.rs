// SPDX-License-Identifier: Apache-2.0

//! A node that publishes statistics with known figures.

use rclrs::*;
use ros_env::{
    diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus},
    statistics_msgs::msg::MetricsMessage,
    topic_statistics_interfaces::msg::{MessagesLostEvent, MetricsDistribution},
};
use test_support::{node, wait_for, Spinning};

use crate::{
    common::{window, FIGURES},
    process::Exporter,
};

pub struct Robot {
    pub windows: Publisher<MetricsMessage>,
    pub distributions: Publisher<MetricsDistribution>,
    pub losses: Publisher<MessagesLostEvent>,
    diagnostics: Publisher<DiagnosticArray>,
    pub node: Node,
    _spinning: Spinning,
}

impl Robot {
    /// Starts the node, and waits until all its topics have a subscription.
    pub fn start() -> Self {
        let (executor, node) = node("robot", &[]);
        let robot = Self {
            windows: node.create_publisher("/statistics".keep_last(5000)).unwrap(),
            distributions: node.create_publisher("/statistics/distribution".keep_last(100)).unwrap(),
            losses: node.create_publisher("/events/messages_lost".keep_last(100)).unwrap(),
            diagnostics: node.create_publisher("/diagnostics".keep_last(100)).unwrap(),
            node,
            _spinning: Spinning::start(executor),
        };
        wait_for("subscriptions", || {
            let counts = [
                robot.windows.get_subscription_count(),
                robot.distributions.get_subscription_count(),
                robot.losses.get_subscription_count(),
                robot.diagnostics.get_subscription_count(),
            ];
            counts.into_iter().all(|count| count.unwrap() == 1)
        });
        robot
    }

    /// Publishes a metric of the window of one second that ends at `stop`.
    pub fn publish(&self, source: &str, metric: &str, stop: i32, figures: [f64; 5]) {
        self.windows.publish(window(source, metric, stop, figures)).unwrap();
    }

    pub fn publish_status(&self, status: DiagnosticStatus) {
        self.diagnostics.publish(DiagnosticArray { status: vec![status], ..Default::default() }).unwrap();
    }

    /// Publishes a window of the node `/mark`, and waits until the exporter has received this and all earlier windows.
    pub fn settle(&self, exporter: &Exporter) {
        self.publish("/mark:/mark", "message_age", 1, FIGURES);
        exporter.scrape_until("mark", |series| series.count("node=\"/mark\"") > 0);
    }
}
