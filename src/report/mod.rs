// SPDX-License-Identifier: Apache-2.0

//! Everything that leaves a node, one file for each way out.
//!
//! A finished window is published as a [`message`] for each metric, and one for each [`distribution`], and logged as a table
//! ([`log_table`]). Losses are published as
//! [`loss_events`], and health as [`diagnostics`]. The totals since the start are returned by a [`service`], and written to a file (`totals_file`).

pub(crate) mod diagnostics;
pub(crate) mod distribution;
pub(crate) mod log_table;
pub(crate) mod loss_events;
pub(crate) mod message;
pub(crate) mod service;
#[cfg(feature = "totals_file")]
pub(crate) mod totals_file;

use std::sync::Arc;

use crate::interfaces::{
    statistics_msgs::msg::MetricsMessage, topic_statistics_interfaces::msg::MetricsDistribution,
};
use rclrs::{PublisherState, RclrsError};
use rosidl_runtime_rs::Message;

/// A publisher of messages of type `M`; a test can have one of its own.
pub(crate) trait Publish<M>: Send + Sync {
    fn publish(&self, message: M) -> Result<(), RclrsError>;
}

impl<M: Message> Publish<M> for PublisherState<M> {
    fn publish(&self, message: M) -> Result<(), RclrsError> {
        self.publish(message)
    }
}

/// A publisher of the windows of sources: their metrics, and their distributions.
pub(crate) trait PublishWindows: Publish<MetricsMessage> + Publish<MetricsDistribution> {}

impl<P: Publish<MetricsMessage> + Publish<MetricsDistribution>> PublishWindows for P {}

/// A shared publisher of windows.
pub(crate) type WindowPublisher = Arc<dyn PublishWindows>;

/// A shared publisher of messages of type `M`.
pub(crate) type SharedPublisher<M> = Arc<dyn Publish<M>>;

/// The messages that could not be published since the last warning.
#[derive(Default)]
pub(crate) struct Failures {
    count: u64,
    first: Option<String>,
}

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a failure. Its description is kept if it is the first one.
    pub(crate) fn add(&mut self, description: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(description);
    }

    /// Adds the failures of `later`.
    pub(crate) fn append(&mut self, later: Failures) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
    }

    /// Returns the warning about the failures, and forgets them.
    pub(crate) fn take(&mut self) -> Option<String> {
        let Self { count, first } = std::mem::take(self);
        Some(format!("{count} messages of topic statistics could not be published: {}", first?))
    }
}
