// SPDX-License-Identifier: Apache-2.0

//! Converts the health of sources to messages for `/diagnostics`: `diagnostic_msgs/msg/DiagnosticArray`.

use topic_statistics_core::{
    escape::Escaped,
    health::{diagnostic_message, diagnostic_values, Judge, LastWindow},
    record::source::Source,
};

use crate::interfaces::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
};

/// The topic on which diagnostic_updater also publishes.
pub(crate) const TOPIC: &str = "/diagnostics";

/// The names that all diagnostic statuses of a node contain.
#[derive(Clone, Debug)]
pub struct NodeNames {
    /// The name of the node without its namespace, as in diagnostic_updater.
    pub name: String,
    /// The hardware ID of the device.
    pub hardware_id: String,
}

/// Returns the diagnostic status of a source: its health and its last window. The name of the status is unique within
/// the node.
pub fn status(node: &NodeNames, source: &Source, judge: &Judge) -> DiagnosticStatus {
    let latest = source.latest();
    let window = latest.as_deref().map(LastWindow::from);
    let name = ("measurement_source_name".to_owned(), Escaped(&source.name).to_string());
    let values = [name].into_iter().chain(diagnostic_values(judge, window.as_ref()));
    DiagnosticStatus {
        level: judge.health().level as u8,
        name: format!("{}: {}", Escaped(&node.name), Escaped(source.name.task())),
        message: diagnostic_message(judge),
        hardware_id: Escaped(&node.hardware_id).to_string(),
        values: values.map(|(key, value)| KeyValue { key, value }).collect(),
    }
}

/// Converts nanoseconds since the epoch to a ROS time.
pub(crate) fn time(nanoseconds: i64) -> Time {
    super::message::time(nanoseconds)
}

#[cfg(test)]
mod tests;
