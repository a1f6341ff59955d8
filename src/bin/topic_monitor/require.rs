//! Whether the topics are as `--require` asks.

use crate::{condition::Condition, format::figure, row::Row};

/// What stands in the way of the conditions, a line for each; nothing once all topics fulfil all of them.
pub fn failures<'a>(conditions: &[Condition], rows: impl Iterator<Item = &'a Row> + Clone) -> Vec<String> {
    let mut failures = vec![];
    let mut is_about_any = vec![false; conditions.len()];
    for row in rows {
        for (condition, is_about_any) in conditions.iter().zip(&mut is_about_any) {
            if !condition.is_about(row) {
                continue;
            }
            *is_about_any = true;
            let value = condition.value_of(row);
            if condition.is_fulfilled_by(value) {
                continue;
            }
            let why = match &row.problem {
                Some(problem) => format!(" ({})", problem.text()),
                None if row.reading.is_none() => " (no whole window yet)".to_owned(),
                None => String::new(),
            };
            failures.push(format!(
                "{}: {condition} fails: {} is {}{why}",
                row.name,
                condition.name(),
                figure(value)
            ));
        }
    }
    let nothing = conditions.iter().zip(is_about_any).filter(|(_, is_about_any)| !is_about_any);
    failures.extend(
        nothing.map(|(condition, _)| format!("{condition} fails: no topic that it is about was found")),
    );
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{condition::Conditions, row::tests::row};

    fn failures_of(conditions: &str) -> Vec<String> {
        let conditions = conditions.parse::<Conditions>().unwrap().0;
        let rows = [row("/imu", 100.0, 2), Row::new("/odom")];
        failures(&conditions, rows.iter())
    }

    #[test]
    fn each_topic_that_fails_is_told_with_its_value() {
        assert!(failures_of("/imu: rate>=90 /imu:age.max<5").is_empty());
        assert_eq!(
            failures_of("/imu: lost=0 rate>=100 /scan: age<5"),
            [
                "/imu: /imu: lost=0 fails: lost is 2.000",
                "/odom: rate>=100 fails: rate is - (no whole window yet)",
                "/scan: age<5 fails: no topic that it is about was found"
            ]
        );
    }
}
