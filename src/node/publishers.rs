// SPDX-License-Identifier: Apache-2.0

//! Publishes windows and health.

use std::sync::{Arc, Mutex, OnceLock};

use crate::interfaces::{diagnostic_msgs::msg::DiagnosticArray, statistics_msgs::msg::MetricsMessage};
use rclrs::{Node, Publisher, PublisherOptions, QoSProfile, RclrsError};
use rosidl_runtime_rs::Message;
use topic_statistics_core::{
    mutex::lock,
    schedule::outbox::{PublishError, PublishWindows},
    Metric, SourceKind, Summary, Window,
};

use crate::{
    error::{creation_error, StatisticsError},
    report::{diagnostics, message::metrics_message},
};

/// The publishers of windows on one topic: one publisher for the metrics, and one publisher for the distributions.
pub(super) struct TopicPublishers {
    topic: String,
    /// The QoS that was set; `None` for the default, whose depth depends on the number of metrics.
    qos: Option<QoSProfile>,
    publishers: Mutex<Publishers>,
    #[cfg(feature = "interfaces")]
    distributions: super::distributions::DistributionPublisher,
}

struct Publishers {
    /// The sum of the numbers of metrics of all sources created so far that use these publishers.
    window: usize,
    metrics: Publisher<MetricsMessage>,
}

impl TopicPublishers {
    /// The depth of the history for at most [`FEW`](Self::FEW) metrics. With this depth, a slow reader misses no
    /// message of the last four windows. The depth is small because Fast DDS allocates the first 100 messages of a
    /// history when it creates the history.
    const DEPTH: u32 = 32;
    /// The largest number of metrics of all sources together for which [`DEPTH`](Self::DEPTH) is used: two metrics for
    /// each of four subscriptions.
    const FEW: usize = 8;
    /// The depth of the history for more metrics: two messages for each of 1000 subscriptions.
    const DEPTH_OF_MANY: u32 = 2000;

    /// Creates the publishers. Errors if rclrs cannot create the publisher of the metrics, for example because the
    /// topic is invalid.
    pub(super) fn new(node: &Node, topic: &str, qos: Option<QoSProfile>) -> Result<Self, StatisticsError> {
        let metrics = create_publisher(node, options(topic, Self::qos(qos, 0)))?;
        Ok(Self {
            topic: topic.to_owned(),
            qos,
            publishers: Mutex::new(Publishers { window: 0, metrics }),
            #[cfg(feature = "interfaces")]
            distributions: super::distributions::DistributionPublisher::new(node, topic),
        })
    }

    /// Returns whether these publishers publish on this topic, with this QoS.
    pub(super) fn are_of(&self, topic: &str, qos: Option<QoSProfile>) -> bool {
        self.topic == topic && self.qos == qos
    }

    /// Makes room in the history for the windows of a new source with this number of metrics.
    ///
    /// If the history is too small, publishers with a deeper history replace the first publishers, at most once. This
    /// is done when a source is created, so that readers discover the new publishers before a window ends. If rclrs
    /// cannot create the new publishers, for example because the context is shut down, the first publishers remain.
    pub(super) fn add_source(&self, node: &Node, metrics: usize) {
        let mut publishers = lock(&self.publishers);
        let before = Self::qos(self.qos, publishers.window);
        publishers.window += metrics;
        let now = Self::qos(self.qos, publishers.window);
        if now == before {
            return;
        }
        if let Ok(publisher) = node.create_publisher(options(&self.topic, now)) {
            publishers.metrics = publisher;
        }
        #[cfg(feature = "interfaces")]
        self.distributions.replace(node, now);
    }

    /// Creates the publisher of the distributions now, so that readers find the publisher before the first distribution
    /// is published.
    ///
    /// Errors if rclrs cannot create the publisher.
    #[cfg(feature = "interfaces")]
    pub(super) fn create_distributions(&self, node: &Node) -> Result<(), StatisticsError> {
        self.distributions.create(node, self.present_qos())
    }

    /// Returns the QoS for the sources that were created up to now.
    #[cfg(feature = "interfaces")]
    fn present_qos(&self) -> QoSProfile {
        Self::qos(self.qos, lock(&self.publishers).window)
    }

    /// Returns the given QoS, or the default QoS for this number of metrics.
    fn qos(given: Option<QoSProfile>, window: usize) -> QoSProfile {
        let depth = if window > Self::FEW { Self::DEPTH_OF_MANY } else { Self::DEPTH };
        given.unwrap_or_else(|| QoSProfile::topics_default().keep_last(depth).reliable())
    }
}

impl PublishWindows for TopicPublishers {
    fn publish_metric(
        &self,
        source: &str,
        metric: Metric,
        window: Window,
        summary: &Summary,
    ) -> Result<(), PublishError> {
        let publisher = Arc::clone(&lock(&self.publishers).metrics);
        Ok(publisher.publish(metrics_message(source, metric, window, summary))?)
    }

    #[cfg(feature = "interfaces")]
    fn publish_distribution(
        &self,
        source: &str,
        metric: Metric,
        window: Window,
        distribution: &topic_statistics_core::collector::Distribution,
    ) -> Result<(), PublishError> {
        let message = crate::report::distribution::message(source, metric, window, distribution);
        self.distributions.publish(message, self.present_qos())
    }
}

/// The publisher of health. rclrs's publisher is created only when a source has expectations, or for an executor,
/// because most nodes publish no health.
#[derive(Default)]
pub(super) struct DiagnosticsPublisher {
    publisher: OnceLock<Publisher<DiagnosticArray>>,
}

impl DiagnosticsPublisher {
    /// The depth of the history, which is small because readers need only the last message.
    const DEPTH: u32 = 10;

    /// Creates the publisher now, so that readers find the publisher before the first health is published. Errors if
    /// rclrs cannot create the publisher.
    pub(super) fn create(&self, node: &Node) -> Result<(), StatisticsError> {
        let topic = diagnostics::TOPIC.to_owned();
        self.publisher_of(node)
            .map(drop)
            .map_err(|source| creation_error(node, SourceKind::Publisher, topic, source))
    }

    /// Publishes health. Errors if rclrs cannot create the publisher, or cannot publish.
    pub(super) fn publish(&self, node: &Node, message: DiagnosticArray) -> Result<(), RclrsError> {
        self.publisher_of(node)?.publish(message)
    }

    fn publisher_of(&self, node: &Node) -> Result<&Publisher<DiagnosticArray>, RclrsError> {
        if let Some(publisher) = self.publisher.get() {
            return Ok(publisher);
        }
        let qos = QoSProfile::topics_default().keep_last(Self::DEPTH).reliable();
        let publisher = node.create_publisher(options(diagnostics::TOPIC, qos))?;
        // If two threads create a publisher at the same time, the second publisher is dropped.
        Ok(self.publisher.get_or_init(|| publisher))
    }
}

fn options(topic: &str, qos: QoSProfile) -> PublisherOptions<'_> {
    let mut options = PublisherOptions::new(topic);
    options.qos = qos;
    options
}

/// Creates a publisher of the node. Errors if rclrs cannot create the publisher.
pub(super) fn create_publisher<T: Message>(
    node: &Node,
    options: PublisherOptions<'_>,
) -> Result<Publisher<T>, StatisticsError> {
    let topic = options.topic.to_owned();
    node.create_publisher(options)
        .map_err(|source| creation_error(node, SourceKind::Publisher, topic, source))
}
