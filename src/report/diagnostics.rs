// SPDX-License-Identifier: Apache-2.0

//! `/diagnostics`: the health of sources as `diagnostic_msgs/msg/DiagnosticArray`.

use std::fmt::Display;

use crate::{
    condition::{Condition, Figures, Quantity},
    escape::Escaped,
    health::{Cause, Judge, Level},
    interfaces::{
        builtin_interfaces::msg::Time,
        diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
    },
    measure::source::Source,
    window::{Metric, WindowStatistics},
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
    let health = judge.health();
    let failing = judge.conditions().filter(|judged| judged.fails).count();
    let more = match health.cause {
        Cause::Condition { .. } if failing > 1 => format!("; {} more", failing - 1),
        _ => String::new(),
    };
    let mut values = Values(vec![]);
    values.add_rate(judge, source.latest().as_deref());
    if let Some(window) = source.latest() {
        values.add_ages(judge, &window);
        values.add_metrics(&window);
    }
    values.add_conditions(judge);
    DiagnosticStatus {
        level: health.level as u8,
        name: format!("{}: {}", Escaped(&node.name), Escaped(task_name(node, source))),
        message: format!("{health}{more}"),
        hardware_id: Escaped(&node.hardware_id).to_string(),
        values: values.0,
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

struct Values(Vec<KeyValue>);

impl Values {
    fn add(&mut self, key: impl Into<String>, value: impl Display) {
        self.0.push(KeyValue { key: key.into(), value: value.to_string() });
    }

    /// As `%f` of C.
    fn add_number(&mut self, key: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.add(key, format_args!("{value:.6}"));
        }
    }

    /// The keys of diagnostic_updater's FrequencyStatus, and those of greenwave_monitor on the rate.
    fn add_rate(&mut self, judge: &Judge, window: Option<&WindowStatistics>) {
        let mut judged = judge.conditions().filter(|judged| judged.condition.quantity() == Quantity::Rate);
        // It is counted over as many windows as it takes: one window of a slow topic has no message.
        let counted = judged.find_map(|judged| judged.value);
        let rate = counted.or(window.map(WindowStatistics::rate)).unwrap_or(f64::NAN);
        if let Some(window) = window {
            self.add("Events in window", window.count);
            if let Some(totals) = window.totals {
                self.add("Events since startup", totals.received);
            }
            self.add_number("Duration of window (s)", window.length.as_secs_f64());
        }
        self.add_number("Actual frequency (Hz)", rate);
        self.add_number("frame_rate_node", rate);
        if let Some(lost) = window.and_then(|window| window.totals?.lost) {
            self.add("total_dropped_frames", lost);
        }
        let (lowest, highest) = limits(judge, |quantity| quantity == Quantity::Rate);
        if let (Some(lowest), Some(highest)) = (lowest, highest) {
            let expected = (lowest + highest) / 2.0;
            if lowest == highest {
                self.add_number("Target frequency (Hz)", expected);
            }
            self.add_number("expected_frequency", expected);
            self.add_number("tolerance", 100.0 * (highest - expected) / expected);
        }
        self.add_number("Minimum acceptable frequency (Hz)", lowest.unwrap_or(f64::NAN));
        self.add_number("Maximum acceptable frequency (Hz)", highest.unwrap_or(f64::NAN));
    }

    /// The keys of diagnostic_updater's TimeStampStatus, in seconds, and that of greenwave_monitor on the age.
    fn add_ages(&mut self, judge: &Judge, window: &WindowStatistics) {
        let Some(ages) = window.get(Metric::MessageAge) else { return };
        self.add_number("Earliest timestamp delay:", ages.minimum * 1e-3);
        self.add_number("Latest timestamp delay:", ages.maximum * 1e-3);
        let is_age = |quantity| matches!(quantity, Quantity::Metric(Metric::MessageAge, figure) if figure.is_of_samples());
        let (lowest, highest) = limits(judge, is_age);
        self.add_number("Earliest acceptable timestamp delay:", lowest.unwrap_or(f64::NAN) * 1e-3);
        self.add_number("Latest acceptable timestamp delay:", highest.unwrap_or(f64::NAN) * 1e-3);
        self.add_number("current_delay_from_realtime_ms", ages.average);
    }

    /// Our own keys, by `metrics_source`.
    fn add_metrics(&mut self, window: &WindowStatistics) {
        for (metric, summary) in &window.metrics {
            self.add_number(format!("{metric}.average"), summary.average);
            self.add_number(format!("{metric}.maximum"), summary.maximum);
        }
    }

    fn add_conditions(&mut self, judge: &Judge) {
        for (level, key) in [(Level::Warn, "warn_unless"), (Level::Error, "error_unless")] {
            let of_level = judge.conditions().filter(|judged| judged.level == level);
            let text: Vec<_> = of_level.map(|judged| requirement(judged.condition)).collect();
            if !text.is_empty() {
                self.add(key, text.join(" "));
            }
        }
        let failing = judge.conditions().filter(|judged| judged.fails);
        let failing: Vec<_> = failing
            .map(|judged| {
                let value = judged.value.unwrap_or(f64::NAN);
                format!("{} ({})", requirement(judged.condition), Figures(value))
            })
            .collect();
        if !failing.is_empty() {
            self.add("failing", failing.join(" "));
        }
    }
}

fn requirement(condition: &Condition) -> String {
    condition.requirement().to_string()
}

/// Returns the limits of the conditions on a quantity: of those for WARN, or else of those for ERROR.
fn limits(judge: &Judge, is_it: impl Fn(Quantity) -> bool) -> (Option<f64>, Option<f64>) {
    let limit = |of: fn(&Condition) -> Option<f64>, better: fn(f64, f64) -> f64| {
        let limits = |level: Level| {
            judge
                .conditions()
                .filter(|judged| judged.level == level && is_it(judged.condition.quantity()))
                .filter_map(|judged| of(judged.condition))
                .reduce(better)
        };
        limits(Level::Warn).or_else(|| limits(Level::Error))
    };
    (limit(Condition::lower_limit, f64::max), limit(Condition::upper_limit, f64::min))
}

#[cfg(test)]
mod tests;
