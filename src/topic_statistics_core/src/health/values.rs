// SPDX-License-Identifier: Apache-2.0

//! The keys and values of a source's diagnostic status.

use std::{fmt::Display, time::Duration};

use super::{Cause, Judge, Level};
use crate::{
    condition::{Condition, Figures, Quantity},
    escape::Escaped,
    executor::ExecutorWindow,
    metric::Metric,
    summary::Summary,
    window::WindowStatistics,
};

/// The key of the longest callback of an executor's window.
pub const LONGEST_CALLBACK: &str = "longest_callback";
/// The prefix of the keys of the longest waits in an executor's window; a number from 1 to 5 follows the prefix.
pub const CALLBACK_WAIT: &str = "callback_wait_";

/// The key of the numbers of judged windows (windows that were compared with the expectations): four numbers, one for
/// each level, in the order of [`Level::ALL`].
pub const WINDOWS_JUDGED: &str = "windows_judged";

/// The last window of a source, as the source's diagnostic status needs it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LastWindow<'a> {
    /// The number of messages in the window; `None` if the number is unknown.
    pub messages: Option<u64>,
    /// The length of the window on the monotonic clock.
    pub length: Duration,
    /// Messages per second; NaN if unknown.
    pub rate: f64,
    /// The number of messages received up to the end of the window; `None` if the number is unknown.
    pub received: Option<u64>,
    /// The number of messages lost up to the end of the window; `None` if the number is unknown.
    pub lost: Option<u64>,
    /// The metrics by their `metrics_source` names, with their summaries.
    pub metrics: Vec<(&'a str, Summary)>,
    /// What the threads of an executor ran; `None` for sources of other kinds.
    pub executor: Option<&'a ExecutorWindow>,
}

impl<'a> LastWindow<'a> {
    /// Creates a window with these metrics. All other values are unknown.
    pub fn new(length: Duration, metrics: Vec<(&'a str, Summary)>) -> Self {
        Self { messages: None, length, rate: f64::NAN, received: None, lost: None, metrics, executor: None }
    }
}

impl<'a> From<&'a WindowStatistics> for LastWindow<'a> {
    fn from(window: &'a WindowStatistics) -> Self {
        Self {
            messages: window.is_count_known.then_some(window.count),
            length: window.length,
            rate: window.rate(),
            received: window.totals.map(|totals| totals.received),
            lost: window.totals.and_then(|totals| totals.lost),
            metrics: window.metrics.iter().map(|(metric, summary)| (metric.name(), *summary)).collect(),
            executor: window.executor.as_deref(),
        }
    }
}

/// The diagnostic status of a source, with the values of `diagnostic_msgs/msg/DiagnosticStatus` except `hardware_id`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// The level of the source.
    pub level: Level,
    /// The name of the node without its namespace, and the name of the source within the node, as in
    /// diagnostic_updater: `listener: /imu`.
    pub name: String,
    /// One sentence about the health.
    pub message: String,
    /// The keys and their values, beginning with `measurement_source_name`.
    pub values: Vec<(String, String)>,
}

impl SourceStatus {
    /// Creates the status of a source with this `measurement_source_name`. `node` is the name of the node without its
    /// namespace, and `task` the name of the source within the node. Names are escaped, except the names of the
    /// window's metrics.
    pub fn new(node: &str, task: &str, source: &str, judge: &Judge, window: Option<&LastWindow>) -> Self {
        let health = judge.health();
        let failing = judge.conditions().filter(|judged| judged.fails).count();
        let message = match health.cause {
            Cause::Condition { .. } if failing > 1 => format!("{health}; {} more", failing - 1),
            _ => health.to_string(),
        };
        let mut values = Values(vec![]);
        values.add("measurement_source_name", Escaped(source));
        values.add_rate(judge, window);
        if let Some(window) = window {
            values.add_ages(judge, window);
            values.add_metrics(window);
            values.add_callbacks(window);
        }
        values.add_conditions(judge);
        values.add(WINDOWS_JUDGED, judge.windows().map(|windows| windows.to_string()).join(" "));
        let name = format!("{}: {}", Escaped(node), Escaped(task));
        Self { level: health.level, name, message, values: values.0 }
    }
}

/// The keys and values of a source's diagnostic status: the keys of diagnostic_updater's FrequencyStatus and
/// TimeStampStatus, the keys that greenwave_monitor's dashboards read, and the keys of this library. An unknown value
/// gets no key. Names of metrics are not escaped: the caller has to escape names that come from the network.
struct Values(Vec<(String, String)>);

impl Values {
    fn add(&mut self, key: impl Into<String>, value: impl Display) {
        self.0.push((key.into(), value.to_string()));
    }

    fn add_count(&mut self, key: &str, count: Option<u64>) {
        if let Some(count) = count {
            self.add(key, count);
        }
    }

    /// Adds a value in the format `%f` of C.
    fn add_number(&mut self, key: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.add(key, format_args!("{value:.6}"));
        }
    }

    /// Adds the keys of diagnostic_updater's FrequencyStatus and of greenwave_monitor for the rate.
    fn add_rate(&mut self, judge: &Judge, window: Option<&LastWindow>) {
        let mut judged = judge.conditions().filter(|judged| judged.condition.quantity() == Quantity::Rate);
        // The rate of the judge is preferred: the judge counts the rate over as many windows as needed, and one window
        // of a slow topic may have no message.
        let counted = judged.find_map(|judged| judged.value);
        let rate = counted.or(window.map(|window| window.rate)).unwrap_or(f64::NAN);
        if let Some(window) = window {
            self.add_count("Events in window", window.messages);
            self.add_count("Events since startup", window.received);
            self.add_number("Duration of window (s)", window.length.as_secs_f64());
        }
        self.add_number("Actual frequency (Hz)", rate);
        self.add_number("frame_rate_node", rate);
        self.add_number("frame_rate_msg", rate);
        self.add_count("total_dropped_frames", window.and_then(|window| window.lost));
        let (lowest, highest) = limits(judge, |quantity| quantity == Quantity::Rate);
        // A lower limit and an upper limit form a range only if both are limits for the same level.
        let range = lowest.zip(highest).filter(|((of_lowest, _), (of_highest, _))| of_lowest == of_highest);
        let (lowest, highest) = (lowest.map(|(_, limit)| limit), highest.map(|(_, limit)| limit));
        if let Some(((_, lowest), (_, highest))) = range {
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

    /// Adds the keys of diagnostic_updater's TimeStampStatus, in seconds, and greenwave_monitor's key for the age.
    fn add_ages(&mut self, judge: &Judge, window: &LastWindow) {
        let ages = window.metrics.iter().find(|(name, _)| *name == Metric::MessageAge.name());
        let Some((_, ages)) = ages else { return };
        self.add_number("Earliest timestamp delay:", ages.minimum * 1e-3);
        self.add_number("Latest timestamp delay:", ages.maximum * 1e-3);
        let is_age = |quantity| match quantity {
            Quantity::Metric(Metric::MessageAge, figure) => figure.is_of_samples(),
            _ => false,
        };
        let (lowest, highest) = limits(judge, is_age);
        let seconds = |limit: Option<(Level, f64)>| limit.map_or(f64::NAN, |(_, limit)| limit * 1e-3);
        self.add_number("Earliest acceptable timestamp delay:", seconds(lowest));
        self.add_number("Latest acceptable timestamp delay:", seconds(highest));
        self.add_number("current_delay_from_realtime_ms", ages.average);
    }

    /// Adds the keys of this library for the metrics, by `metrics_source`.
    fn add_metrics(&mut self, window: &LastWindow) {
        for (metric, summary) in &window.metrics {
            self.add_number(format!("{metric}.average"), summary.average);
            self.add_number(format!("{metric}.maximum"), summary.maximum);
        }
    }

    /// Adds what an executor ran: the busy share of each thread, the longest callback, and the longest waits of a
    /// callback for another callback.
    fn add_callbacks(&mut self, window: &LastWindow) {
        let Some(ExecutorWindow { threads, longest, waits }) = window.executor else { return };
        for thread in threads {
            self.add_number(format!("{}.{}", Metric::Busy, thread.name), thread.busy);
        }
        if let Some(longest) = longest {
            self.add(LONGEST_CALLBACK, longest);
        }
        for (wait, number) in waits.iter().zip(1..) {
            self.add(format!("{CALLBACK_WAIT}{number}"), wait);
        }
    }

    fn add_conditions(&mut self, judge: &Judge) {
        for (level, key) in [(Level::Warn, "warn_unless"), (Level::Error, "error_unless")] {
            let of_level = judge.conditions().filter(|judged| judged.level == level);
            let text: Vec<_> = of_level.map(|judged| judged.condition.requirement()).collect();
            if !text.is_empty() {
                self.add(key, text.join(" "));
            }
        }
        let failing = judge.conditions().filter(|judged| judged.fails);
        let failing: Vec<_> = failing
            .map(|judged| {
                let value = judged.value.unwrap_or(f64::NAN);
                format!("{} ({})", judged.condition.requirement(), Figures(value))
            })
            .collect();
        if !failing.is_empty() {
            self.add("failing", failing.join(" "));
        }
    }
}

/// A limit, and the level of the conditions that have this limit.
type Limit = Option<(Level, f64)>;

/// Returns the lower and the upper limit of a quantity. Each limit is from the conditions for WARN. If the conditions
/// for WARN have no such limit, the limit is from the conditions for ERROR.
fn limits(judge: &Judge, is_it: impl Fn(Quantity) -> bool) -> (Limit, Limit) {
    let limit = |bound: fn(&Condition) -> Option<f64>, better: fn(f64, f64) -> f64| {
        let limits = |level: Level| {
            let limits = judge
                .conditions()
                .filter(|judged| judged.level == level && is_it(judged.condition.quantity()))
                .filter_map(|judged| bound(judged.condition));
            Some((level, limits.reduce(better)?))
        };
        limits(Level::Warn).or_else(|| limits(Level::Error))
    };
    (limit(Condition::lower_limit, f64::max), limit(Condition::upper_limit, f64::min))
}
