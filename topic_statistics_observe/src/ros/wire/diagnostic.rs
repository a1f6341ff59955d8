// SPDX-License-Identifier: Apache-2.0

//! A diagnostic status on `/diagnostics`, and the health of a source of statistics in such a status.

use ros_env::diagnostic_msgs::msg::{DiagnosticStatus, KeyValue};
use topic_statistics_core::{
    condition::{Conditions, Quantity},
    health::{Level, CALLBACK_WAIT, LONGEST_CALLBACK, WINDOWS_JUDGED},
};

use super::{check_names, Refused, MAX_COUNT, MAX_FIGURE};

/// A diagnostic status. The names in a status can have any characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    pub name: String,
    pub hardware_id: String,
    pub level: Level,
    /// The health of a source of statistics. `None` if the status is about something else.
    pub health: Option<SourceHealth>,
}

/// The health of a source of statistics, as the node of the source or topic_monitor publishes it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceHealth {
    /// The `measurement_source_name` as received: it is not checked, and may contain control characters.
    pub source: String,
    /// Messages per second. The mean of several windows, so that the value is stable.
    pub rate: Option<f64>,
    /// The limits in the source's conditions: at most one for each level, quantity and direction.
    pub limits: Vec<ExpectedLimit>,
    /// For each level, the number of windows that have had this level so far. `None` if the status does not contain
    /// these numbers.
    pub windows: Option<[u64; 4]>,
}

/// A limit for a quantity, from a condition of the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedLimit {
    /// Whether a violation of the limit causes ERROR; otherwise the violation causes WARN.
    pub is_error: bool,
    pub quantity: Quantity,
    /// Whether the limit is a lower limit; otherwise the limit is an upper limit.
    pub is_lower: bool,
    /// The limit, in the unit of the quantity.
    pub value: f64,
}

/// The callbacks that an executor ran in its last window.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutorCallbacks {
    /// The `measurement_source_name`, with any characters.
    pub source: String,
    /// At most [`MAX_LINES`](Self::MAX_LINES) lines with any characters, about: the busy threads, the longest callback,
    /// and the longest waits.
    pub lines: Vec<String>,
}

impl Diagnostic {
    pub fn new(status: &DiagnosticStatus) -> Result<Self, Refused> {
        check_names(&[&status.name, &status.hardware_id])?;
        let level =
            Level::ALL.get(usize::from(status.level)).ok_or(Refused::Level { level: status.level })?;
        Ok(Self {
            name: status.name.clone(),
            hardware_id: status.hardware_id.clone(),
            level: *level,
            health: SourceHealth::new(status),
        })
    }
}

impl SourceHealth {
    /// The maximum length of a text of conditions, in bytes. A longer text is ignored.
    const MAX_TEXT: usize = 10_000;
    /// The maximum number of limits of a source.
    const MAX_LIMITS: usize = 50;

    /// Returns the health in a status that this library or topic_monitor published. `None` for other statuses.
    fn new(status: &DiagnosticStatus) -> Option<Self> {
        let value =
            |key: &str| status.values.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str());
        let source = value("measurement_source_name").filter(|name| check_names(&[name]).is_ok())?;
        let rate = value("Actual frequency (Hz)").and_then(|rate| rate.parse().ok());
        let mut limits: Vec<ExpectedLimit> = vec![];
        for (key, is_error) in [("warn_unless", false), ("error_unless", true)] {
            let text = value(key).filter(|text| text.len() <= Self::MAX_TEXT).unwrap_or_default();
            // Conditions that cannot be parsed are ignored: a later version of the library may have written them.
            let conditions = text.parse::<Conditions>().ok();
            for condition in conditions.iter().flat_map(Conditions::iter) {
                for (limit, is_lower) in [(condition.lower_limit(), true), (condition.upper_limit(), false)] {
                    if let Some(value) = limit.filter(|value| value.is_finite()) {
                        let quantity = condition.quantity();
                        add_limit(&mut limits, ExpectedLimit { is_error, quantity, is_lower, value });
                    }
                }
            }
        }
        limits.truncate(Self::MAX_LIMITS);
        let rate = rate.filter(|rate| (0.0..=MAX_FIGURE).contains(rate));
        let windows = value(WINDOWS_JUDGED).and_then(|counts| {
            let counts: Vec<u64> = counts.split(' ').map_while(|count| count.parse().ok()).collect();
            counts.try_into().ok()
        });
        let is_possible = |counts: &[u64; 4]| counts.iter().all(|count| *count as f64 <= MAX_COUNT);
        Some(Self { source: source.to_owned(), rate, limits, windows: windows.filter(is_possible) })
    }
}

/// Adds a limit. If `limits` already has a limit of the same kind, the narrower limit is kept.
fn add_limit(limits: &mut Vec<ExpectedLimit>, limit: ExpectedLimit) {
    let kind = |expected: &ExpectedLimit| (expected.is_error, expected.quantity, expected.is_lower);
    match limits.iter_mut().find(|known| kind(known) == kind(&limit)) {
        Some(known) if limit.is_lower => known.value = known.value.max(limit.value),
        Some(known) => known.value = known.value.min(limit.value),
        None => limits.push(limit),
    }
}

impl ExecutorCallbacks {
    /// One line for all threads, one for the longest callback, and five for the longest waits.
    pub const MAX_LINES: usize = 7;
    /// The maximum number of threads that are shown.
    const MAX_THREADS: usize = 32;

    /// Reads a diagnostic status. `None` if the status is not about an executor, or if one of its texts is too long.
    pub fn new(status: &DiagnosticStatus) -> Option<Self> {
        let (mut source, mut threads, mut lines) = (None, vec![], vec![]);
        for KeyValue { key, value } in &status.values {
            check_names(&[key, value]).ok()?;
            match key.strip_prefix("busy.") {
                Some("average" | "maximum") => {} // the values for all threads together
                Some(thread) => {
                    let busy = value.parse().ok().filter(|busy: &f64| busy.is_finite())?;
                    threads.push(format!("{thread} {busy:.1} %"));
                }
                None if key == "measurement_source_name" => source = Some(value.clone()),
                None if key == LONGEST_CALLBACK => lines.insert(0, format!("longest: {value}")),
                None if key.starts_with(CALLBACK_WAIT) => lines.push(value.clone()),
                None => {}
            }
        }
        threads.truncate(Self::MAX_THREADS);
        let busy = Some(threads).filter(|threads| !threads.is_empty())?.join(", ");
        let lines = [format!("busy: {busy}")].into_iter().chain(lines).take(Self::MAX_LINES).collect();
        Some(Self { source: source?, lines })
    }
}
