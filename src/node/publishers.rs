// SPDX-License-Identifier: Apache-2.0

//! Publishes windows and health.

use std::sync::{Arc, Mutex};

use crate::interfaces::statistics_msgs::msg::MetricsMessage;
use rclrs::{Node, Publisher, PublisherOptions, QoSProfile, RclrsError};
use rosidl_runtime_rs::Message;
use topic_statistics_core::{
    mutex::lock,
    schedule::outbox::{PublishError, PublishWindows},
    Metric, SourceKind, Summary, Window,
};

use crate::{
    error::{creation_error, StatisticsError},
    options::StatisticsOptions,
    report::message::metrics_message,
};
#[cfg(feature = "interfaces")]
use crate::{interfaces::topic_statistics_interfaces::msg::MetricsDistribution, report::distribution};

/// The publishers of windows on one topic: one publisher for the metrics, and one publisher for the distributions.
pub(super) struct TopicPublishers {
    topic: String,
    /// The QoS that the options set. If it is `None`, the depth of the history depends on the number of metrics.
    qos: Option<QoSProfile>,
    publishers: Mutex<Publishers>,
    #[cfg(feature = "interfaces")]
    distributions: LazyPublisher<MetricsDistribution>,
    #[cfg(feature = "interfaces")]
    node: std::sync::Weak<rclrs::NodeState>,
}

struct Publishers {
    /// The sum of the numbers of metrics of all sources created so far that use these publishers.
    window: usize,
    metrics: Publisher<MetricsMessage>,
}

impl TopicPublishers {
    /// The depth of the history if all sources together have at most [`FEW`](Self::FEW) metrics. With this depth, a
    /// slow reader misses no message of the last four windows. The depth is small because Fast DDS allocates the first
    /// 100 messages of a history when it creates the history.
    const DEPTH: u32 = 32;
    /// The largest number of metrics for which [`DEPTH`](Self::DEPTH) is used: two metrics for each of four
    /// subscriptions.
    const FEW: usize = 8;
    /// The depth of the history if all sources together have more metrics: two messages for each of 1000 subscriptions.
    const DEPTH_OF_MANY: u32 = 2000;

    /// Creates the publishers. Errors if rclrs cannot create one, for example because the topic is invalid.
    pub(super) fn new(node: &Node, options: &StatisticsOptions) -> Result<Self, StatisticsError> {
        let topic = options.publisher_topic();
        let qos = Self::qos(options.qos, 0);
        let created = Self {
            topic: topic.to_owned(),
            qos: options.qos,
            publishers: Mutex::new(Publishers {
                window: 0,
                metrics: create_publisher(node, with_qos(topic, qos))?,
            }),
            #[cfg(feature = "interfaces")]
            distributions: LazyPublisher::new(distribution::topic(topic)),
            #[cfg(feature = "interfaces")]
            node: Arc::downgrade(node),
        };
        created.prepare(node, options)?;
        Ok(created)
    }

    /// If the options of a source enable distributions, creates the publisher of distributions, so that readers find
    /// this publisher before the first distribution is published. Errors if rclrs cannot create the publisher.
    pub(super) fn prepare(&self, _node: &Node, _options: &StatisticsOptions) -> Result<(), StatisticsError> {
        #[cfg(feature = "interfaces")]
        if _options.has_distributions() {
            return self.distributions.create(_node, self.present_qos());
        }
        Ok(())
    }

    pub(super) fn are_for(&self, options: &StatisticsOptions) -> bool {
        self.topic == options.publisher_topic() && self.qos == options.qos
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
        if let Ok(publisher) = node.create_publisher(with_qos(&self.topic, now)) {
            publishers.metrics = publisher;
        }
        #[cfg(feature = "interfaces")]
        self.distributions.replace(node, now);
    }

    #[cfg(feature = "interfaces")]
    fn present_qos(&self) -> QoSProfile {
        Self::qos(self.qos, lock(&self.publishers).window)
    }

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
        let Some(node) = self.node.upgrade() else { return Ok(()) };
        let message = distribution::message(source, metric, window, distribution);
        Ok(self.distributions.publish(&node, self.present_qos(), message)?)
    }
}

/// A publisher that is created only when it is needed, because most nodes publish neither distributions nor health.
pub(super) struct LazyPublisher<T: Message> {
    topic: String,
    publisher: Mutex<Option<Publisher<T>>>,
}

impl<T: Message> LazyPublisher<T> {
    pub(super) fn new(topic: String) -> Self {
        Self { topic, publisher: Mutex::default() }
    }

    /// Creates the publisher now, so that readers find it before the first message. Errors if rclrs cannot create it.
    pub(super) fn create(&self, node: &Node, qos: QoSProfile) -> Result<(), StatisticsError> {
        let created = self.get_or_create(node, qos).map(drop);
        created.map_err(|source| creation_error(node, SourceKind::Publisher, self.topic.clone(), source))
    }

    /// Replaces the publisher by a publisher with this QoS. Does nothing if the publisher was not created yet.
    #[cfg(feature = "interfaces")]
    fn replace(&self, node: &Node, qos: QoSProfile) {
        let had_one = lock(&self.publisher).take().is_some();
        // If rclrs cannot create the new publisher, for example because the context is shut down, the next publication
        // tries again.
        let _created = had_one.then(|| self.get_or_create(node, qos));
    }

    pub(super) fn publish(&self, node: &Node, qos: QoSProfile, message: T) -> Result<(), RclrsError> {
        self.get_or_create(node, qos)?.publish(message)
    }

    fn get_or_create(&self, node: &Node, qos: QoSProfile) -> Result<Publisher<T>, RclrsError> {
        let mut publisher = lock(&self.publisher);
        if let Some(publisher) = &*publisher {
            return Ok(Arc::clone(publisher));
        }
        let created = node.create_publisher(with_qos(&self.topic, qos))?;
        Ok(Arc::clone(publisher.insert(created)))
    }
}

fn with_qos(topic: &str, qos: QoSProfile) -> PublisherOptions<'_> {
    let mut options = PublisherOptions::new(topic);
    options.qos = qos;
    options
}

pub(super) fn create_publisher<T: Message>(
    node: &Node,
    options: PublisherOptions<'_>,
) -> Result<Publisher<T>, StatisticsError> {
    let topic = options.topic.to_owned();
    node.create_publisher(options)
        .map_err(|source| creation_error(node, SourceKind::Publisher, topic, source))
}

#[cfg(test)]
mod tests {
    use rclrs::QoSHistoryPolicy::KeepLast;

    use super::*;

    #[test]
    fn more_than_eight_metrics_have_a_deep_history_unless_the_qos_is_given() {
        let given = QoSProfile::topics_default().keep_last(5);
        for (qos, metrics, depth) in [(None, 0, 32), (None, 8, 32), (None, 9, 2000), (Some(given), 9, 5)] {
            assert_eq!(TopicPublishers::qos(qos, metrics).history, KeepLast { depth }, "{metrics}");
        }
    }
}
