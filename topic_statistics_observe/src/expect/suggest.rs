// SPDX-License-Identifier: Apache-2.0

//! The output of `--print-expectations`: a file of expectations from the present values of the rows, with a tolerance.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use topic_statistics_core::{Escaped, Metric};

use crate::{format, pattern::Pattern, row::Row};

/// If a latched topic is silent for longer than this number of its periods, it gets no condition for its rate.
const REGULAR_PERIODS: f64 = 3.0;

/// Returns the text of a file of expectations. The rows fulfil these expectations, with a tolerance in percent. `None`
/// if no row had a message. `program` watched the topics for the time `watched`.
pub fn suggest(
    program: &str,
    rows: &[&Row],
    tolerance: u32,
    watched: Duration,
    now: Instant,
) -> Option<String> {
    let mut text = format!(
        "# What {program} saw in {} s, with a tolerance of {tolerance} %: a start. \
         Choose the limits by what the robot needs.\n\
         # Levels and limits: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/health.md\n\
         topics:\n",
        watched.as_secs()
    );
    let mut has_topic = false;
    for row in rows {
        let name = format::name(&row.name);
        let is_name = row.name.parse::<Pattern>().is_ok_and(|pattern| pattern.name().is_some());
        if !is_name || Escaped(&row.name).to_string() != row.name {
            // The name is written in a comment, because the name is not a topic's name, or contains characters that
            // could mislead a reader.
            let _ = writeln!(text, "  # {name}: not written, because its name cannot be one of a topic");
            continue;
        }
        let Some(entry) = entry(row, tolerance, now) else {
            let _ = writeln!(text, "  # {name}: no message");
            continue;
        };
        has_topic = true;
        let _ = writeln!(text, "  {:?}:\n{entry}", row.name);
    }
    has_topic.then_some(text)
}

/// Returns conditions that a topic fulfils. `None` if the topic had no message.
fn entry(row: &Row, tolerance: u32, now: Instant) -> Option<String> {
    row.last_message.or(row.window.as_ref().map(|window| window.ended))?;
    let rate = 1000.0 / row.mean_period;
    // If several publishers each publish one message on a latched topic, such as /tf_static, the messages have periods
    // but no regular rate.
    let has_ended = row.is_latched && row.silence(now) > REGULAR_PERIODS * row.mean_period;
    if !(rate.is_finite() && rate > 0.0) || has_ended {
        let why = match row.is_latched {
            true => "it is transient local, and had no regular messages",
            false => "it had no second message",
        };
        return Some(format!("    stale_after: never # {why}"));
    }
    let mut warn = vec![format!("rate={}±{tolerance}%", short(rate))];
    let factor = 1.0 + f64::from(tolerance) / 100.0;
    let highest_age = match row.last_minute.distribution(Metric::MessageAge, now) {
        Some(ages) => ages.maximum(),
        None => row.figures(Metric::MessageAge.name()).maximum,
    };
    if highest_age > 0.0 && highest_age.is_finite() {
        warn.push(format!("age<{}ms", short(highest_age * factor)));
    }
    if row.lost == Some(0) {
        warn.push("lost=0".to_owned());
    }
    Some(format!("    warn_unless: {}\n    error_unless: rate>={}", warn.join(" "), short(rate / 2.0)))
}

/// Returns a number as text with at least three significant digits.
fn short(value: f64) -> String {
    let digits = (2.0 - value.log10().floor()).clamp(0.0, 17.0) as usize;
    format::without_zeros(&format!("{value:.digits$}")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        expect::ExpectationFile,
        testing::{at, distribution, row},
    };
    use topic_statistics_core::condition::Quantity;

    #[test]
    fn what_was_seen_fulfils_what_is_suggested() {
        let mut imu = row("/imu", 98.7654, 0);
        imu.last_minute.add(Metric::MessageAge, &distribution(&[2.0, 30.0]), at(100));
        let map = Row { mean_period: f64::NAN, ..row("/map", 1.0, 0) };
        let listener = row("/r1/listener:/imu", 0.25, 3);
        let rows = [imu, map, Row::new("/silent"), row("/odd\u{202e}", 1.0, 0), listener];
        let suggest = |rows: &[Row]| {
            let rows: Vec<&Row> = rows.iter().collect();
            suggest("topic_monitor", &rows, 20, Duration::from_secs(10), at(100))
        };
        let text = suggest(&rows).unwrap();
        assert_eq!(
            text.split_once("topics:\n").unwrap().1,
            "  \"/imu\":\n    warn_unless: rate=98.8±20% age<36ms lost=0\n    error_unless: rate>=49.4\n\
             \x20 \"/map\":\n    stale_after: never # it had no second message\n\
             \x20 # /silent: no message\n\
             \x20 # /odd\\u{202e}: not written, because its name cannot be one of a topic\n\
             \x20 \"/r1/listener:/imu\":\n    warn_unless: rate=0.25±20% age<4.2ms\n    error_unless: rate>=0.125\n"
        );
        let file = ExpectationFile::parse(&text).unwrap();
        for (_, condition) in file.expectations("/imu").unwrap().conditions() {
            let value = match condition.quantity() {
                Quantity::Rate => 98.7654,
                Quantity::Lost => 0.0,
                _ => 30.0,
            };
            assert!(condition.is_fulfilled_by(value), "{condition}");
        }
        assert_eq!(file.expectations("/map").unwrap().conditions().count(), 0);
        assert_eq!(suggest(&[Row::new("/imu")]), None, "without a message, no file is suggested");
        let texts = [0.000123456, 0.25, 9.876_54, 100.0, 98.7654, 123_456.0].map(short);
        assert_eq!(texts, ["0.000123", "0.25", "9.88", "100", "98.8", "123456"]);
    }

    #[test]
    fn latched_topics_have_a_rate_if_they_are_regular() {
        for (name, is_latched, mean_period, last, has_rate) in [
            ("/robot_status", true, 1000.0, 129, true),
            ("/tf_static", true, f64::NAN, 100, false), // only one message
            ("/tf_static", true, 2500.0, 110, false),   // three publishers started within 5 s
            ("/imu", false, 2500.0, 110, true),
        ] {
            let row = Row { is_latched, mean_period, last_message: Some(at(last)), ..row(name, 1.0, 0) };
            let text = suggest("topic_monitor", &[&row], 20, Duration::from_secs(30), at(130)).unwrap();
            assert_eq!(text.contains("rate="), has_rate, "{text}");
        }
    }
}
