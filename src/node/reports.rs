// SPDX-License-Identifier: Apache-2.0

//! Writes to the node's log, and publishes the node's health on `/diagnostics`.

use std::sync::{Arc, Weak};

use rclrs::{log_error, log_info, log_warn, NodeState};
use topic_statistics_core::schedule::{
    judges::Diagnosed,
    outbox::PublishError,
    scheduler::{Reports, Severity},
};

use super::publishers::LazyPublisher;
use crate::{
    interfaces::diagnostic_msgs::msg::DiagnosticArray,
    report::{
        diagnostics::{self, NodeNames},
        message::time,
    },
};

/// Writes the log and publishes the health of a node. After the node was dropped, only errors are reported, through
/// `tracing`.
pub(super) struct NodeReports {
    pub(super) node: Weak<NodeState>,
    pub(super) names: NodeNames,
    pub(super) diagnostics: Option<Arc<LazyPublisher<DiagnosticArray>>>,
}

impl Reports for NodeReports {
    fn log(&self, severity: Severity, text: &str) {
        let node = self.node.upgrade();
        match (severity, node) {
            (Severity::Error, None) => tracing::error!("{text}"),
            (Severity::Error, Some(node)) => {
                tracing::error!("{text}");
                log_error!(node.logger(), "{text}");
            }
            (Severity::Warn, Some(node)) => {
                tracing::warn!("{text}");
                log_warn!(node.logger(), "{text}");
            }
            (Severity::Info, Some(node)) => {
                tracing::info!("{text}");
                log_info!(node.logger(), "{text}");
            }
            (Severity::Table, Some(node)) => log_info!(node.logger(), "{text}"),
            (Severity::Warn | Severity::Info | Severity::Table, None) => {}
        }
    }

    fn publish_health(&self, diagnosed: &[&Diagnosed]) -> Result<(), PublishError> {
        let (Some(to), Some(node)) = (&self.diagnostics, self.node.upgrade()) else { return Ok(()) };
        let statuses =
            diagnosed.iter().map(|judged| diagnostics::status(&self.names, &judged.source, &judged.judge));
        let mut message = DiagnosticArray { status: statuses.collect(), ..Default::default() };
        message.status.sort_by(|one, other| one.name.cmp(&other.name));
        message.header.stamp = time(node.get_clock().now().nsec);
        to.publish(&node, diagnostics::qos(), message)
            .map_err(|error| format!("{}: {error}", diagnostics::TOPIC).into())
    }
}

/// A node's clock. With `use_sim_time`, this clock follows `/clock`.
pub(super) struct NodeClock(pub(super) rclrs::Clock);

impl topic_statistics_core::record::simulated_time::RosClock for NodeClock {
    fn now(&self) -> i64 {
        self.0.now().nsec
    }
}
