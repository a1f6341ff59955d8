// SPDX-License-Identifier: Apache-2.0

//! Converts the health of sources to messages for `/diagnostics`: `diagnostic_msgs/msg/DiagnosticArray`.

use rclrs::QoSProfile;
use topic_statistics_core::{escape::Escaped, health::Judge, record::source::Source, schedule::judges};

use crate::interfaces::diagnostic_msgs::msg::{DiagnosticStatus, KeyValue};

/// The topic of the health, which diagnostic_updater also uses.
pub(crate) const TOPIC: &str = "/diagnostics";

/// The QoS of the health: readers need only the last message.
pub(crate) fn qos() -> QoSProfile {
    QoSProfile::topics_default().keep_last(10).reliable()
}

/// The names that all diagnostic statuses of a node contain.
#[derive(Clone, Debug)]
pub struct NodeNames {
    /// The name of the node without its namespace, as in diagnostic_updater.
    pub name: String,
    /// The hardware ID of the device.
    pub hardware_id: String,
}

/// Returns the diagnostic status of a source. The name of the status is unique within the node.
pub fn status(node: &NodeNames, source: &Source, judge: &Judge) -> DiagnosticStatus {
    let status = judges::status(&node.name, source, judge);
    DiagnosticStatus {
        level: status.level as u8,
        name: status.name,
        message: status.message,
        hardware_id: Escaped(&node.hardware_id).to_string(),
        values: status.values.into_iter().map(|(key, value)| KeyValue { key, value }).collect(),
    }
}

#[cfg(test)]
mod tests;
