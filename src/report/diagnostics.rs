// SPDX-License-Identifier: Apache-2.0

//! `/diagnostics`: the health of sources as `diagnostic_msgs/msg/DiagnosticArray`.

use topic_statistics_core::{
    escape::Escaped,
    health::{diagnostic_message, diagnostic_values, Judge, LastWindow},
    record::source::Source,
};

use crate::interfaces::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
};

/// The topic of diagnostic_updater.
pub(crate) const TOPIC: &str = "/diagnostics";

/// The names in all statuses of a node.
#[derive(Clone, Debug)]
pub struct NodeNames {
    /// Without its namespace, as diagnostic_updater has it.
    pub name: String,
    /// Of the device.
    pub hardware_id: String,
}

/// Returns the status of a source: its judge's result and its last window. The name is unique within the node.
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

/// Returns a time of a message from nanoseconds since the epoch.
pub(crate) fn time(nanoseconds: i64) -> Time {
    super::message::time(nanoseconds)
}

#[cfg(test)]
mod tests;
