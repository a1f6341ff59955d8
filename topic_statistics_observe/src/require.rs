// SPDX-License-Identifier: Apache-2.0

//! The check whether rows fulfil the conditions of `--require`.

mod condition;

pub use condition::{value_of, Condition, Conditions};

use std::time::{Duration, Instant};

use crate::{
    format::{self, figure},
    pattern::Pattern,
    row::{Row, Window},
};

/// Returns a line for each failed condition. Returns no line if all conditions are fulfilled at the same time.
pub fn failures(conditions: &[Condition], rows: &[&Row], now: Instant) -> Vec<String> {
    let line = |ConditionResult { topic, requirement, failure }| {
        let why = failure?;
        let topic = if topic.is_empty() { topic } else { format::name(&topic) + ": " };
        Some(if requirement.is_empty() { why } else { format!("{topic}{requirement} fails: {why}") })
    };
    results(conditions, rows, now).into_iter().filter_map(line).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionResult {
    /// The topic, or the condition's pattern if no topic matches. Empty if the result is about all topics.
    pub topic: String,
    /// The condition without its topic. Empty if the result is about all conditions together.
    pub requirement: String,
    /// Why the topic does not fulfil the condition. `None` if the topic fulfils the condition.
    pub failure: Option<String>,
}

/// Returns a result for each condition and each topic that the condition is about. If all conditions are fulfilled, but
/// not at the same time, a further result reports this.
pub fn results(conditions: &[Condition], rows: &[&Row], now: Instant) -> Vec<ConditionResult> {
    let mut results = vec![];
    let mut windows: Vec<&Window> = vec![];
    for condition in conditions {
        let matching: Vec<&&Row> = rows.iter().filter(|row| condition.is_about(row)).collect();
        if matching.is_empty() {
            let topic = condition.topic.as_ref().map_or("", Pattern::text).to_owned();
            let (requirement, failure) = (condition.requirement(), Some("no topic matches".to_owned()));
            results.push(ConditionResult { topic, requirement, failure });
        }
        for row in matching {
            let window = row.recent_window(now);
            let value = window.map_or(f64::NAN, |_| condition.value_of(row, now).or_nan());
            windows.extend(window);
            let why = || {
                let why = match &row.problem {
                    Some(problem) => format!(" ({})", problem.text()),
                    None if window.is_none() && row.window.is_some() => " (no recent window)".to_owned(),
                    None if window.is_none() => " (no whole window yet)".to_owned(),
                    None => match condition.missing_samples(row, now) {
                        Some((has, needed)) => {
                            format!(" (it needs {needed} samples in the last minute, and has {has})")
                        }
                        None => String::new(),
                    },
                };
                format!("{} is {}{why}", condition.name(), figure(value))
            };
            let failure = (!condition.is_fulfilled_by(value)).then(why);
            let (topic, requirement) = (row.name.clone(), condition.requirement());
            results.push(ConditionResult { topic, requirement, failure });
        }
    }
    if results.iter().all(|result| result.failure.is_none()) && !overlap(&windows, now) {
        let failure = Some("the conditions were fulfilled in different windows only".to_owned());
        results.push(ConditionResult { topic: String::new(), requirement: String::new(), failure });
    }
    results
}

/// Returns whether all windows overlap in time. The monitor notices the end of a window only when it polls the rows. So
/// the time for which the windows overlap has to be at least a quarter of the shortest window.
fn overlap(windows: &[&Window], now: Instant) -> bool {
    let ended_ago = |window: &&Window| now.saturating_duration_since(window.ended);
    let began_ago = |window: &&Window| ended_ago(window).saturating_add(window.length);
    let last_begin = windows.iter().map(began_ago).min().unwrap_or(Duration::MAX);
    let first_end = windows.iter().map(ended_ago).max().unwrap_or_default();
    let shortest = windows.iter().map(|window| window.length).min().unwrap_or_default();
    windows.is_empty() || last_begin > first_end + shortest / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, row, window, S};
    use topic_statistics_core::Window as Times;

    #[test]
    fn each_topic_that_fails_is_reported_with_its_value() {
        let moved = |seconds: i64, step: i64| {
            let mut odom = row("/odom", 50.0, 0);
            let mut last = window(100 + seconds, 50.0, 0);
            last.times = Times::from_nanoseconds((99 + seconds + step) * S, (100 + seconds + step) * S);
            odom.add_window(last);
            odom
        };
        let imu = row("/imu", 100.0, 2);
        let two = [imu.clone(), Row::new("/odom")];
        let other = "the conditions were fulfilled in different windows only";
        for (conditions, rows, now, expected) in [
            ("/imu: rate>=90 /imu:age.max<5", &two[..], 101, &[][..]),
            (
                "rate>=100 /imu: lost=0 age<50 /scan: age<5",
                &two,
                101,
                &[
                    "/odom: rate>=100 fails: rate is - (no whole window yet)",
                    "/imu: lost=0 fails: lost is 2.000",
                    "/scan: age<5 fails: no topic matches",
                ],
            ),
            (
                "/imu: age.p99<5",
                &two,
                101,
                &["/imu: age.p99<5 fails: age.p99 is - (it needs 100 samples in the last minute, and has 0)"],
            ),
            ("/imu: rate>90", &two, 110, &["/imu: rate>90 fails: rate is - (no recent window)"]),
            ("rate>10", &[imu.clone(), moved(0, 0)], 101, &[]),
            ("rate>10", &[imu.clone(), moved(1, 0)], 101, &[other]),
            // Fails if overlaps are checked on the system clock, which may be stepped.
            ("rate>10", &[imu.clone(), moved(0, -60)], 101, &[]),
            ("rate>10", &[imu.clone(), moved(1, -1)], 101, &[other]),
        ] {
            let rows: Vec<&Row> = rows.iter().collect();
            let failures = failures(&conditions.parse::<Conditions>().unwrap().0, &rows, at(now));
            assert_eq!(failures, expected, "{conditions}");
        }
    }
}
