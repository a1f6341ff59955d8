// SPDX-License-Identifier: Apache-2.0

//! Whether the topics are as `--require` asks.

use std::time::{Duration, Instant};

use crate::{
    condition::Condition,
    format::{self, figure},
    row::{Reading, Row},
};

/// What stands in the way of the conditions, a line for each; nothing once all topics fulfil all of them in one window.
pub fn failures(conditions: &[Condition], rows: &[&Row], now: Instant) -> Vec<String> {
    let mut failures = vec![];
    let mut windows: Vec<&Reading> = vec![];
    for condition in conditions {
        let about: Vec<&&Row> = rows.iter().filter(|row| condition.is_about(row)).collect();
        if about.is_empty() {
            failures.push(format!("{condition} fails: no topic that it is about was found"));
        }
        for row in about {
            let reading = row.fresh_reading(now);
            let value = if reading.is_some() { condition.value_of(row) } else { f64::NAN };
            windows.extend(reading);
            if condition.is_fulfilled_by(value) {
                continue;
            }
            let why = match &row.problem {
                Some(problem) => format!(" ({})", problem.text()),
                None if reading.is_none() && row.reading.is_some() => " (no window ends any more)".to_owned(),
                None if reading.is_none() => " (no whole window yet)".to_owned(),
                None => String::new(),
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

/// Returns whether there is a time that is in all windows. When they ended is known to a tick of the monitor, so that a time that
/// short is none.
fn overlap(windows: &[&Reading], now: Instant) -> bool {
    let ended_ago = |window: &&Reading| now.saturating_duration_since(window.ended);
    let began_ago = |window: &&Reading| ended_ago(window).saturating_add(window.length);
    let last_begin = windows.iter().map(began_ago).min().unwrap_or(Duration::MAX);
    let first_end = windows.iter().map(ended_ago).max().unwrap_or_default();
    let shortest = windows.iter().map(|window| window.length).min().unwrap_or_default();
    windows.is_empty() || last_begin > first_end + shortest / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        condition::Conditions,
        row::tests::{at, reading, row},
    };

    fn failures_of(conditions: &str, rows: &[Row]) -> Vec<String> {
        let rows: Vec<&Row> = rows.iter().collect();
        failures(&conditions.parse::<Conditions>().unwrap().0, &rows, at(101))
    }

    #[test]
    fn each_topic_that_fails_is_told_with_its_value() {
        let rows = [row("/imu", 100.0, 2), Row::new("/odom")];
        assert!(failures_of("/imu: rate>=90 /imu:age.max<5", &rows).is_empty());
        assert_eq!(
            failures_of("/imu: lost=0 rate>=100 /scan: age<5", &rows),
            [
                "/imu: lost=0 fails: lost is 2.000",
                "/odom: rate>=100 fails: rate is - (no whole window yet)",
                "/scan: age<5 fails: no topic that it is about was found"
            ]
        );
    }

    #[test]
    fn what_was_fulfilled_long_ago_is_not() {
        let old = row("/imu", 100.0, 0);
        let failures = failures(&"rate>90".parse::<Conditions>().unwrap().0, &[&old], at(110));
        assert_eq!(failures, ["/imu: rate>90 fails: rate is - (no window ends any more)"]);
    }

    #[test]
    fn the_topics_fulfil_them_in_one_window() {
        let mut late = row("/odom", 50.0, 0);
        late.take(reading(101, 50.0, 0));
        let rows = [row("/imu", 100.0, 0), late];
        assert_eq!(
            failures_of("rate>10", &rows),
            ["the conditions were fulfilled in different windows only"]
        );
    }
    #[test]
    fn a_step_of_the_system_clock_does_not_part_windows_nor_join_them() {
        let mut stepped = row("/odom", 50.0, 0);
        let window = stepped.reading.as_mut().unwrap();
        (window.start, window.stop) = (window.start - 60_000_000_000, window.stop - 60_000_000_000);
        assert!(failures_of("rate>10", &[row("/imu", 100.0, 0), stepped]).is_empty());
        let mut late = row("/odom", 50.0, 0);
        late.take(Reading { start: 99_000_000_000, stop: 100_000_000_000, ..reading(101, 50.0, 0) });
        assert_eq!(failures_of("rate>10", &[row("/imu", 100.0, 0), late]).len(), 1);
    }
}
