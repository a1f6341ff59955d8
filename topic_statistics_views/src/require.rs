// SPDX-License-Identifier: Apache-2.0

//! Whether the rows fulfil the conditions of `--require`.

mod condition;

pub use condition::{value_of, Condition, Conditions};

use std::time::{Duration, Instant};

use crate::{
    format::{self, figure},
    row::{Row, Window},
};

/// Returns a line for each condition that a topic does not fulfil. Empty once all topics fulfil all conditions in the
/// same window.
pub fn failures(conditions: &[Condition], rows: &[&Row], now: Instant) -> Vec<String> {
    let mut failures = vec![];
    let mut windows: Vec<&Window> = vec![];
    for condition in conditions {
        let matching: Vec<&&Row> = rows.iter().filter(|row| condition.is_about(row)).collect();
        if matching.is_empty() {
            failures.push(format!("{condition} fails: no topic matches"));
        }
        for row in matching {
            let window = row.recent_window(now);
            let value = window.map_or(f64::NAN, |_| condition.value_of(row, now).or_nan());
            windows.extend(window);
            if condition.is_fulfilled_by(value) {
                continue;
            }
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
            let (name, requirement, what) =
                (format::name(&row.name), condition.requirement(), condition.name());
            failures.push(format!("{name}: {requirement} fails: {what} is {}{why}", figure(value)));
        }
    }
    if failures.is_empty() && !overlap(&windows, now) {
        failures.push("the conditions were fulfilled in different windows only".to_owned());
    }
    failures
}

/// Returns whether all windows have a time in common. When a window ended is known to a tick of the monitor, so a
/// quarter of the shortest window has to be in common.
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
    use crate::testing::{at, row, window};

    fn failures_of(conditions: &str, rows: &[Row]) -> Vec<String> {
        let rows: Vec<&Row> = rows.iter().collect();
        failures(&conditions.parse::<Conditions>().unwrap().0, &rows, at(101))
    }

    #[test]
    fn each_topic_that_fails_is_reported_with_its_value() {
        let rows = [row("/imu", 100.0, 2), Row::new("/odom")];
        assert!(failures_of("/imu: rate>=90 /imu:age.max<5", &rows).is_empty());
        assert_eq!(
            failures_of("rate>=100 /imu: lost=0 age<50 /scan: age<5", &rows),
            [
                "/odom: rate>=100 fails: rate is - (no whole window yet)",
                "/imu: lost=0 fails: lost is 2.000",
                "/scan: age<5 fails: no topic matches"
            ]
        );
    }

    #[test]
    fn a_percentile_that_has_too_few_samples_says_how_many_it_needs() {
        assert_eq!(
            failures_of("age.p99<5", &[row("/imu", 100.0, 0)]),
            ["/imu: age.p99<5 fails: age.p99 is - (it needs 100 samples in the last minute, and has 0)"]
        );
    }

    #[test]
    fn a_window_that_ended_long_ago_fulfils_nothing() {
        let old = row("/imu", 100.0, 0);
        let failures = failures(&"rate>90".parse::<Conditions>().unwrap().0, &[&old], at(110));
        assert_eq!(failures, ["/imu: rate>90 fails: rate is - (no recent window)"]);
    }

    #[test]
    fn the_topics_fulfil_them_in_one_window() {
        let mut late = row("/odom", 50.0, 0);
        late.add_window(window(101, 50.0, 0));
        let rows = [row("/imu", 100.0, 0), late];
        assert_eq!(
            failures_of("rate>10", &rows),
            ["the conditions were fulfilled in different windows only"]
        );
    }

    #[test]
    fn a_step_of_the_system_clock_does_not_part_windows_nor_join_them() {
        let mut stepped = row("/odom", 50.0, 0);
        let last = stepped.window.as_mut().unwrap();
        (last.start, last.stop) = (last.start - 60_000_000_000, last.stop - 60_000_000_000);
        assert!(failures_of("rate>10", &[row("/imu", 100.0, 0), stepped]).is_empty());
        let mut late = row("/odom", 50.0, 0);
        late.add_window(Window { start: 99_000_000_000, stop: 100_000_000_000, ..window(101, 50.0, 0) });
        assert_eq!(failures_of("rate>10", &[row("/imu", 100.0, 0), late]).len(), 1);
    }
}
