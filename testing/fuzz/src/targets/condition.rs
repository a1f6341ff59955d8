// SPDX-License-Identifier: Apache-2.0

//! Parses the bytes as the value of `topic_monitor --require`.

use std::time::Instant;

use topic_statistics_core::health::Value;
use topic_statistics_observe::{
    require::{Condition, Conditions},
    row::Row,
};

use crate::check::has_no_control;

/// An error must point into the text. A condition must stay equal when printed and parsed. NaN must meet none.
pub fn condition(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = text.parse::<rclrs_topic_statistics::health::Conditions>() {
        let (written, place) = (error.to_string(), error.place());
        has_no_control(&written, "an error");
        assert!(written.len() <= longest_error(), "{} bytes", written.len());
        assert!(place.is_empty() || !text[place].trim().is_empty(), "{error}: it points at nothing");
    }
    match text.parse::<Conditions>() {
        Ok(Conditions(conditions)) => are_sound(&conditions),
        Err(error) => has_no_control(&error, "an error"),
    }
}

/// Returns an upper bound of the length of an error message, in bytes.
///
/// The longest error is about an unknown metric: it lists all metrics, and repeats the metric and the whole text. Both
/// are cut after 255 characters and "…". An escaped character has at most eight bytes (`\u{202e}`). The position of the
/// error, a number, has up to 20 digits.
fn longest_error() -> usize {
    let short = "x".parse::<rclrs_topic_statistics::health::Conditions>().unwrap_err().to_string();
    short.len() + 2 * (255 * 8 + "…".len()) + 20
}

fn are_sound(conditions: &[Condition]) {
    assert!(!conditions.is_empty());
    let written =
        |conditions: &[Condition]| conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let text = written(conditions);
    has_no_control(&text, "a condition");
    let Conditions(again) = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(written(&again), text);
    assert_eq!(again.len(), conditions.len(), "{text}");

    let now = Instant::now();
    let rows = ["/imu", "imu", "/a/b", "/r1/listener:/imu", ""].map(Row::new);
    for (condition, again) in conditions.iter().zip(&again) {
        assert!(!condition.is_fulfilled_by(f64::NAN), "{condition} is fulfilled by NaN");
        for value in [0.0, -0.0, 1.0, 90.0, -1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(condition.is_fulfilled_by(value), again.is_fulfilled_by(value), "{condition} {value}");
        }
        for row in &rows {
            assert_eq!(condition.is_about(row), again.is_about(row), "{condition} {:?}", row.name);
            assert!(
                condition.value_of(row, now) == Value::Unknown,
                "{condition} has a value without a window"
            );
        }
    }
}
