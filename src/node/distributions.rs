// SPDX-License-Identifier: Apache-2.0

//! The publisher of the distributions of windows.

use std::sync::{Arc, Mutex, Weak};

use rclrs::{Node, NodeState, Publisher, PublisherOptions, QoSProfile, RclrsError};
use topic_statistics_core::{mutex::lock, schedule::outbox::PublishError, SourceKind};

use crate::{
    error::{creation_error, StatisticsError},
    interfaces::topic_statistics_interfaces::msg::MetricsDistribution,
    report::distribution,
};

/// The publisher of distributions. rclrs's publisher is created only when a node has a first distribution, because most
/// nodes have no distributions.
pub(super) struct DistributionPublisher {
    node: Weak<NodeState>,
    topic: String,
    publisher: Mutex<Option<Publisher<MetricsDistribution>>>,
}

impl DistributionPublisher {
    /// Prepares the publisher for windows that are published on `publish_topic`. rclrs's publisher is created later.
    pub(super) fn new(node: &Node, publish_topic: &str) -> Self {
        let topic = distribution::topic(publish_topic);
        Self { node: Arc::downgrade(node), topic, publisher: Mutex::default() }
    }

    /// Creates the publisher, if it does not exist. Errors if rclrs cannot create the publisher.
    pub(super) fn create(&self, node: &Node, qos: QoSProfile) -> Result<(), StatisticsError> {
        let created = self.get_or_create(node, qos).map(drop);
        created.map_err(|source| creation_error(node, SourceKind::Publisher, self.topic.clone(), source))
    }

    /// If the publisher exists, replaces it by a publisher with this QoS.
    pub(super) fn replace(&self, node: &Node, qos: QoSProfile) {
        let had_one = lock(&self.publisher).take().is_some();
        // If rclrs cannot create the new publisher, for example because the context is shut down, the publication of
        // the next distribution tries again.
        let _created = had_one.then(|| self.get_or_create(node, qos));
    }

    /// Publishes a message, unless the node was dropped.
    pub(super) fn publish(&self, message: MetricsDistribution, qos: QoSProfile) -> Result<(), PublishError> {
        let Some(node) = self.node.upgrade() else { return Ok(()) };
        Ok(self.get_or_create(&node, qos)?.publish(message)?)
    }

    fn get_or_create(
        &self,
        node: &Node,
        qos: QoSProfile,
    ) -> Result<Publisher<MetricsDistribution>, RclrsError> {
        let mut publisher = lock(&self.publisher);
        if let Some(publisher) = &*publisher {
            return Ok(Arc::clone(publisher));
        }
        let mut options = PublisherOptions::new(&self.topic);
        options.qos = qos;
        let created = node.create_publisher(options)?;
        Ok(Arc::clone(publisher.insert(created)))
    }
}
