// SPDX-License-Identifier: Apache-2.0

//! Functions that write numbers and names as short text.

use std::time::Duration;

use topic_statistics_core::Escaped;

/// Returns a name from the network, with all characters escaped that a terminal would interpret as commands.
pub fn name(foreign: &str) -> String {
    Escaped(foreign).to_string()
}

/// Returns a number as text of at most 6 characters; `-` for NaN.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        "-".to_owned()
    } else if size < 9.9995 {
        format!("{value:.3}")
    } else if size < 99.995 {
        format!("{value:.2}")
    } else if size < 999.95 {
        format!("{value:.1}")
    } else if size < 99_999.5 {
        format!("{value:.0}")
    } else if size < 9_999_500.0 {
        format!("{:.0}k", value / 1e3)
    } else if size < 9.9995e9 {
        format!("{:.0}M", value / 1e6)
    } else {
        format!("{value:.0e}")
    }
}

/// Removes zeros at the end of a decimal fraction.
pub fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// Returns a count as text of at most 5 characters. The largest text is `9999G`.
pub fn count(count: u64) -> String {
    match count {
        0..=99_999 => count.to_string(),
        100_000..=9_999_999 => format!("{}k", count / 1000),
        10_000_000..=9_999_999_999 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", (count / 1_000_000_000).min(9999)),
    }
}

/// Returns a whole number and what it counts: `1 message`, `2 messages`.
pub fn number_of(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

pub fn count_if_known(known: Option<u64>) -> String {
    known.map_or_else(|| "-".to_owned(), count)
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns a duration, given in milliseconds, as text of at most 5 characters with a unit; `-` for NaN.
pub fn seconds(milliseconds: f64) -> String {
    let seconds = milliseconds / 1000.0;
    if seconds.is_nan() {
        "-".to_owned()
    } else if seconds < 9.95 {
        format!("{seconds:.1}s")
    } else if seconds < 599.5 {
        format!("{seconds:.0}s")
    } else if seconds < 360_000.0 {
        let minutes = (seconds / 60.0) as u64;
        if minutes < 600 {
            format!("{minutes}m")
        } else {
            format!("{}h", minutes / 60)
        }
    } else {
        format!("{}d", ((seconds / 86_400.0) as u64).min(9999))
    }
}

/// Returns the end of a text in at most `width` characters. An ellipsis replaces the start of a longer text.
pub fn end_of(text: &str, width: usize) -> String {
    let length = text.chars().count();
    match width {
        _ if length <= width => text.to_owned(),
        0 => String::new(),
        _ => format!("…{}", text.chars().skip(length + 1 - width).collect::<String>()),
    }
}

/// Returns the start of a text in at most `width` characters. An ellipsis replaces the end of a longer text.
pub fn start_of(text: &str, width: usize) -> String {
    match width {
        _ if text.chars().count() <= width => text.to_owned(),
        0 => String::new(),
        _ => format!("{}…", text.chars().take(width - 1).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0, 1, 2].map(|count| number_of(count, "window")), ["0 windows", "1 window", "2 windows"]);
    }

    #[test]
    fn figures_counts_times_and_texts_are_short() {
        for (value, text) in [
            (f64::NAN, "-"),
            (0.0, "0.000"),
            (9.9999, "10.00"),
            (-9.751, "-9.751"),
            (99.999, "100.0"),
            (1234.5, "1234"),
            (99_999.0, "99999"),
            (123_456.0, "123k"),
            (123_456_789.0, "123M"),
            (1e12, "1e12"),
            (f64::MIN, "-2e308"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!([0, 99_999, 123_456, 12_345_678].map(count), ["0", "99999", "123k", "12M"]);
        assert_eq!([150.0, 12_345.0, 700_000.0, 50_000_000.0].map(seconds), ["0.1s", "12s", "11m", "13h"]);
        assert_eq!([f64::MAX, f64::INFINITY, f64::NAN].map(seconds), ["9999d", "9999d", "-"]);
        assert_eq!(count(u64::MAX), "9999G");
        assert_eq!(end_of("/camera/image_raw", 10), "…image_raw");
        assert_eq!(start_of("sensor_msgs/msg/Imu", 10), "sensor_ms…");
        assert_eq!((end_of("abc", 3), start_of("abc", 1)), ("abc".to_owned(), "…".to_owned()));
        assert_eq!((end_of("abc", 0), start_of("abc", 0)), (String::new(), String::new()));
    }
}
