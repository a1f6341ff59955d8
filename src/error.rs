// SPDX-License-Identifier: Apache-2.0

use std::{path::PathBuf, time::Duration};

use rclrs::RclrsError;

use crate::window::Metric;

/// Why statistics could not be set up. Nothing is created half-way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatisticsError {
    /// A window cannot be that long.
    #[error("A publish period of {period:?} is not possible: it has to be from 1 ms to a day (86400 s)")]
    InvalidPublishPeriod {
        /// The period that was asked for.
        period: Duration,
    },
    /// A name of one's own for the source of the statistics is empty.
    #[error("The source name of statistics is empty: it has to have a character at least")]
    EmptySourceName,
    /// A metric is none that a subscription has.
    #[error(
        "A subscription has no metric {name:?}: it has {names}",
        name = metric.name(),
        names = Metric::ALL.map(Metric::name).join(", ")
    )]
    NoMetricOfSubscriptions {
        /// The metric that was asked for.
        metric: Metric,
    },
    /// Losses cannot be announced that often.
    #[error("A maximal event rate of {rate} Hz is not possible: it has to be 0 (no events), or from 0.00001 to 1000 Hz")]
    InvalidEventRate {
        /// The rate that was asked for, in Hz.
        rate: f64,
    },
    /// The file of totals cannot be written.
    #[error("The totals of the node {node:?} cannot be written to {path:?}: {source}")]
    TotalsFile {
        /// The fully qualified name of the node.
        node: String,
        /// The file that was asked for.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The service that tells the totals could not be created.
    #[error("The service {name:?} could not be created for the node {node:?}: {source}")]
    CreateService {
        /// The name of the service.
        name: &'static str,
        /// The fully qualified name of the node.
        node: String,
        /// What rclrs says.
        source: RclrsError,
    },
    /// A ROS parameter has a value that it cannot have, on the command line or in a parameter file.
    #[error("The parameter {name:?} of the node {node:?} cannot be used: {reason}")]
    InvalidParameter {
        /// The name of the parameter.
        name: &'static str,
        /// The fully qualified name of the node.
        node: String,
        /// The value, as far as rclrs tells it, and the rule.
        reason: String,
    },
    /// A publisher could not be created: that of the statistics, or one that is measured.
    #[error(
        "The publisher on {topic:?} could not be created for the node {node:?} \
         (a topic name has letters, digits, '_' and '/', and no part that is empty or starts with a digit): {source}"
    )]
    CreatePublisher {
        /// The topic name as it was given.
        topic: String,
        /// The fully qualified name of the node.
        node: String,
        /// What rclrs says.
        source: RclrsError,
    },
    /// The thread that ends the windows could not be started.
    #[error("The thread that publishes the statistics of the node {node:?} could not be started: {source}")]
    SpawnThread {
        /// The fully qualified name of the node.
        node: String,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The subscription could not be created.
    #[error(
        "The subscription of {topic:?} could not be created for the node {node:?} \
         (a topic name has letters, digits, '_' and '/', and no part that is empty or starts with a digit): {source}"
    )]
    CreateSubscription {
        /// The topic name as it was given.
        topic: String,
        /// The fully qualified name of the node.
        node: String,
        /// What rclrs says.
        source: RclrsError,
    },
}
