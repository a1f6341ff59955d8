// SPDX-License-Identifier: Apache-2.0

//! `/diagnostics`: the health of sources as `diagnostic_msgs/msg/DiagnosticArray`.

use crate::{
    escape::Escaped,
    health::{diagnostic_message, diagnostic_values, Judge, LastWindow},
    interfaces::{
        builtin_interfaces::msg::Time,
        diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
    },
    measure::source::Source,
};

/// The topic of diagnostic_updater.
pub(crate) const TOPIC: &str = "/diagnostics";

/// The names in all statuses of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeNames {
    /// Without its namespace, as diagnostic_updater has it.
    pub(crate) name: String,
    pub(crate) fully_qualified: String,
    pub(crate) hardware_id: String,
}

/// Returns the status of a source: what its judge says, and its last window.
pub(crate) fn status(node: &NodeNames, source: &Source, judge: &Judge) -> DiagnosticStatus {
    let latest = source.latest();
    let window = latest.as_deref().map(LastWindow::from);
    let values = diagnostic_values(judge, window.as_ref()).into_iter();
    DiagnosticStatus {
        level: judge.health().level as u8,
        name: format!("{}: {}", Escaped(&node.name), Escaped(task_name(node, source))),
        message: diagnostic_message(judge),
        hardware_id: Escaped(&node.hardware_id).to_string(),
        values: values.map(|(key, value)| KeyValue { key, value }).collect(),
    }
}

/// Returns a time of a message from nanoseconds since the epoch.
pub(crate) fn time(nanoseconds: i64) -> Time {
    super::message::time(nanoseconds)
}

/// Gives statuses of the same name numbers, because readers know them by their names. Sorts them by name.
pub(crate) fn number_equal_names(statuses: &mut [DiagnosticStatus]) {
    statuses.sort_by(|one, other| one.name.cmp(&other.name));
    let mut equal = 1;
    for index in 1..statuses.len() {
        let (before, from) = statuses.split_at_mut(index);
        equal = match &before[index - equal].name {
            first if *first == from[0].name => equal + 1,
            _ => 1,
        };
        if equal > 1 {
            from[0].name += &format!(" ({equal})");
        }
    }
}

/// Returns what diagnostic_updater calls the name of a task: a topic, the name of a timer or counter, or a custom source name.
fn task_name<'a>(node: &NodeNames, source: &'a Source) -> &'a str {
    let rest = source.name.strip_prefix(&node.fully_qualified).and_then(|rest| rest.strip_prefix(':'));
    match source.topic() {
        _ if rest.is_some() => rest.unwrap_or_default(),
        Some(topic) if *source.name == node.name => topic,
        _ => &source.name,
    }
}

#[cfg(test)]
mod tests;
