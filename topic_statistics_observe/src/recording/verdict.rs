// SPDX-License-Identifier: Apache-2.0

//! The verdict whether a topic fulfilled a condition in each window.

use std::time::{Duration, Instant};

use topic_statistics_core::health::Value;

use crate::{
    format::{figure, number_of},
    require::Condition,
    row::{Row, Window},
};

/// In how many windows of a run a topic fulfilled a condition.
///
/// The check starts with the first window in which the condition's quantity has a value, so a late start of the topic
/// is no failure. After that, the condition fails in each window without messages. Windows with an unknown value are
/// ignored. A condition that never had a value has failed.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub judged: u64,
    pub failed: u64,
    pub first: Option<Failure>,
    pub last: Option<Failure>,
    /// Why the condition failed at the end of the run: it never had a value, or there was no recent window.
    pub missing: Option<String>,
}

/// A window in which a condition was not fulfilled.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// When the window ended, as the time since the start of the run.
    pub ended: Duration,
    /// When the window ended, on the system clock, in nanoseconds since the Unix epoch.
    pub stop: i64,
    /// The value of the condition's quantity in the window. NaN if the window had no value.
    pub value: f64,
}

impl Verdict {
    pub fn judge(&mut self, condition: &Condition, row: &Row, window: &Window, ended: Duration) {
        let value = match condition.value_of(row, window.ended) {
            Value::Unknown => return,
            Value::Missing(_) if self.judged == 0 => return,
            value => value.or_nan(),
        };
        self.judged += 1;
        if !condition.is_fulfilled_by(value) {
            self.failed += 1;
            let failure = Failure { ended, stop: window.times.stop.as_nanoseconds(), value };
            self.first.get_or_insert(failure);
            self.last = Some(failure);
        }
    }

    /// Sets [`missing`](Self::missing) at the end of the run. `row` is the topic's row at the time of its last window.
    pub fn finish(&mut self, row: &Row, now: Instant) {
        self.missing = match &row.problem {
            _ if self.judged > 0 && row.recent_window(now).is_none() => {
                Some("no window at the end of the run".to_owned())
            }
            _ if self.judged > 0 => None,
            Some(problem) => Some(problem.text().to_owned()),
            None if row.window.is_none() => Some("no whole window".to_owned()),
            None => Some("not measured in any window".to_owned()),
        };
    }

    pub fn is_failed(&self) -> bool {
        self.failed > 0 || self.missing.is_some()
    }

    /// Returns the failures as one line of text. `None` if the condition did not fail.
    pub fn text(&self, condition: &Condition) -> Option<String> {
        let (requirement, name) = (condition.requirement(), condition.name());
        match (self.first, &self.missing) {
            (Some(Failure { ended, value, .. }), _) => Some(format!(
                "{requirement} failed in {} of {}, first after {:.1} s: {name} was {}",
                self.failed,
                number_of(self.judged, "window"),
                ended.as_secs_f64(),
                figure(value)
            )),
            (None, Some(missing)) => Some(format!("{requirement} failed: {missing}")),
            (None, None) => None,
        }
    }
}
