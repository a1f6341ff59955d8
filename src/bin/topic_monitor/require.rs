//! Whether the topics are as `--require` asks.

use crate::{condition::Condition, format::figure, row::Row};

/// What stands in the way of the conditions, a line for each; nothing once all topics fulfil all of them in one window.
pub fn failures(conditions: &[Condition], rows: &[Row], now: i64) -> Vec<String> {
    let mut failures = vec![];
    let mut windows = vec![];
    for condition in conditions {
        let about: Vec<&Row> = rows.iter().filter(|row| condition.is_about(row)).collect();
        if about.is_empty() {
            failures.push(format!("{condition} fails: no topic that it is about was found"));
        }
        for row in about {
            let reading = row.fresh_reading(now);
            let value = if reading.is_some() { condition.value_of(row) } else { f64::NAN };
            windows.extend(reading.map(|reading| (reading.start, reading.stop)));
            if condition.is_fulfilled_by(value) {
                continue;
            }
            let why = match &row.problem {
                Some(problem) => format!(" ({})", problem.text()),
                None if reading.is_none() && row.reading.is_some() => " (no window ends any more)".to_owned(),
                None if reading.is_none() => " (no whole window yet)".to_owned(),
                None => String::new(),
            };
            let (name, requirement, what) = (&row.name, condition.requirement(), condition.name());
            failures.push(format!("{name}: {requirement} fails: {what} is {}{why}", figure(value)));
        }
    }
    let (last_start, first_stop) =
        (windows.iter().map(|window| window.0).max(), windows.iter().map(|window| window.1).min());
    if failures.is_empty() && last_start >= first_stop {
        failures.push("the conditions were fulfilled in different windows only".to_owned());
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        condition::Conditions,
        row::tests::{reading, row, S},
    };

    fn failures_of(conditions: &str, rows: &[Row]) -> Vec<String> {
        failures(&conditions.parse::<Conditions>().unwrap().0, rows, 101 * S)
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
        let failures = failures(&"rate>90".parse::<Conditions>().unwrap().0, &[old], 110 * S);
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
}
