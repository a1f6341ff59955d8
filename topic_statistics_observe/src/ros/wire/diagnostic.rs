// SPDX-License-Identifier: Apache-2.0

//! A status on `/diagnostics`, and what it says of a source of statistics.

use ros_env::diagnostic_msgs::msg::{DiagnosticStatus, KeyValue};
use topic_statistics_core::{
    condition::{Conditions, Quantity},
    health::{Level, CALLBACK_WAIT, LONGEST_CALLBACK, WINDOWS_JUDGED},
};

use super::{check_names, Refused, MAX_COUNT, MAX_FIGURE};

/// A diagnostic status. Its names can have any characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// `name`, for example `/listener: Topic statistics`.
    pub name: String,
    /// `hardware_id`; often empty.
    pub hardware_id: String,
    /// How bad it is.
    pub level: Level,
    /// If it is the health of a source of statistics.
    pub health: Option<SourceHealth>,
}

/// The health of a source, as its node or topic_monitor judges it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceHealth {
    /// The `measurement_source_name`, with any characters.
    pub source: String,
    /// Messages per second, counted over as many windows as that takes.
    pub rate: Option<f64>,
    /// The limits that its conditions set; at most one of a kind.
    pub limits: Vec<ExpectedLimit>,
    /// The windows that the judge has judged so far, by level. `None` if it does not say.
    pub windows: Option<[u64; 4]>,
}

/// A limit of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedLimit {
    /// Whether it is a limit for WARN or for ERROR.
    pub is_error: bool,
    /// The value.
    pub quantity: Quantity,
    /// Whether the value may not be below it, or else not above it.
    pub is_lower: bool,
    /// The limit, in the unit of the quantity.
    pub value: f64,
}

/// What an executor ran in its last window.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutorCallbacks {
    /// The `measurement_source_name`, with any characters.
    pub source: String,
    /// The share of each thread, the longest callback, and the waits, in words, with any characters. At most
    /// [`MAX_LINES`](Self::MAX_LINES).
    pub lines: Vec<String>,
}

impl Diagnostic {
    /// Reads a status.
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
    /// The longest text of conditions that is read.
    const MAX_TEXT: usize = 10_000;
    /// How many limits are read.
    const MAX_LIMITS: usize = 50;

    /// Returns the health in a status of the library or of topic_monitor. `None` for other statuses.
    fn new(status: &DiagnosticStatus) -> Option<Self> {
        let value =
            |key: &str| status.values.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str());
        let source = value("measurement_source_name").filter(|name| check_names(&[name]).is_ok())?;
        let rate = value("Actual frequency (Hz)").and_then(|rate| rate.parse().ok());
        let mut limits: Vec<ExpectedLimit> = vec![];
        for (key, is_error) in [("warn_unless", false), ("error_unless", true)] {
            let text = value(key).filter(|text| text.len() <= Self::MAX_TEXT).unwrap_or_default();
            // Conditions of a later version may not be readable.
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

/// Adds a limit, or keeps the narrower one of two.
fn add_limit(limits: &mut Vec<ExpectedLimit>, limit: ExpectedLimit) {
    let kind = |expected: &ExpectedLimit| (expected.is_error, expected.quantity, expected.is_lower);
    match limits.iter_mut().find(|known| kind(known) == kind(&limit)) {
        Some(known) if limit.is_lower => known.value = known.value.max(limit.value),
        Some(known) => known.value = known.value.min(limit.value),
        None => limits.push(limit),
    }
}

impl ExecutorCallbacks {
    /// The share of all threads in one line, the longest callback, and five waits.
    pub const MAX_LINES: usize = 7;
    /// How many threads are shown.
    const MAX_THREADS: usize = 32;

    /// Reads a status. `None` if it is not an executor's, or if one of its texts is too long.
    pub fn new(status: &DiagnosticStatus) -> Option<Self> {
        let (mut source, mut threads, mut lines) = (None, vec![], vec![]);
        for KeyValue { key, value } in &status.values {
            check_names(&[key, value]).ok()?;
            match key.strip_prefix("busy.") {
                Some("average" | "maximum") => {} // of all threads
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
