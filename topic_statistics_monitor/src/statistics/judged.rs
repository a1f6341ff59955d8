// SPDX-License-Identifier: Apache-2.0

//! Tests of expectations and conditions on sources of statistics: what the metrics of a source show about messages and
//! silence.

use std::time::Duration;

use topic_statistics_core::{health::Level, Window};
use topic_statistics_observe::{
    expect::{ExpectationFile, Expected},
    recording::Recording,
    require::{failures, Conditions},
    ros::wire::MetricWindow,
    testing::{at, figures, S},
};

use super::source::Source;

/// The metrics of a window: name, mean and count of each metric.
type Metrics = &'static [(&'static str, f64, u64)];

const NONE: f64 = f64::NAN;
const EMPTY: Metrics = &[("message_age", NONE, 0), ("message_period", NONE, 0)];
const FAST: Metrics = &[("message_age", 2.0, 100), ("message_period", 10.0, 99)];

/// Gives a source a window of 1 s. Its stop is `stop` on the source's system clock, and it is received at `second` on
/// the monotonic clock.
fn accept(source: &mut Source, second: i64, stop: i64, metrics: Metrics) {
    for &(name, mean, count) in metrics {
        let window = MetricWindow {
            source: "/imu".to_owned(),
            metric: name.to_owned(),
            unit: String::new(),
            window: Window::from_nanoseconds((stop - 1) * S, stop * S),
            figures: figures(mean, count),
        };
        source.add_metric(window, at(second));
    }
    assert!(source.settle(at(second) + Duration::from_millis(300)));
}

/// Returns the level after each window of 1 s. For each window, `windows` has the time of its stop on the source's
/// system clock, in seconds.
fn levels(rate: &str, windows: impl IntoIterator<Item = (i64, Metrics)>) -> Vec<Level> {
    let file = ExpectationFile::parse(&format!("topics: {{/imu: {{error_unless: {rate}}}}}")).unwrap();
    let mut expected = Expected::new(file, Duration::from_secs(1));
    let mut source = Source::new("/imu");
    let windows = (100..).zip(windows).map(|(second, (stop, metrics))| {
        accept(&mut source, second, stop, metrics);
        let settled = at(second) + Duration::from_millis(300);
        expected.judge(&["/imu".to_owned()], &[&source.row], settled)[0].health.level
    });
    windows.collect()
}

/// Returns the levels after the windows `others`, which follow ten windows with the metrics `first`.
fn levels_after(rate: &str, first: Metrics, others: &[Metrics]) -> Vec<Level> {
    let windows = [&[first; 10], others].concat();
    levels(rate, (100..).zip(windows)).split_off(10)
}

#[test]
fn a_rate_is_the_number_of_messages_in_the_window() {
    for (metrics, expected) in [
        // The topic pauses at the end of the window. The mean period alone would be a rate of 74 Hz.
        (&[("message_age", 2.0, 56), ("message_period", 13.5, 55)][..], Some(56.0)),
        (&[("message_age", NONE, 0), ("message_period", 13.5, 55)], Some(56.0)),
        (&[("message_age", 2.0, 1), ("message_period", NONE, 0)], Some(1.0)),
        (&[("frequency_hz", 0.0, 1)], Some(0.0)),
        (&[("requests", 3.0, 1), ("request_period", 500.0, 2)], Some(3.0)),
        (&[("calls", 2.0, 1), ("responses", 1.0, 1), ("round_trip_ms", 20.0, 1)], Some(2.0)),
        (EMPTY, None), // a topic of 1 Hz without header, or no message
    ] {
        let mut source = Source::new("/imu");
        accept(&mut source, 1, 1, metrics);
        let rate = source.row.window.as_ref().unwrap().rate;
        assert_eq!((!rate.is_nan()).then_some(rate), expected, "{metrics:?}");
        assert_eq!(source.row.received as f64, expected.unwrap_or_default(), "{metrics:?}");
        let seen = source.row.last_message.is_some();
        assert_eq!(seen, expected > Some(0.0), "{metrics:?}");
        let required = "rate>=0.3".parse::<Conditions>().unwrap().0;
        let is_fulfilled = failures(&required, &[&source.row], at(1)).is_empty();
        assert_eq!(is_fulfilled, expected >= Some(0.3), "{metrics:?}");
    }
}

#[test]
fn lost_samples_are_no_silence() {
    // If a node loses samples at the end of a window, this window and the next window have no statistics.
    for lost in [1, 2] {
        let levels = levels_after("rate>=90", FAST, &[vec![EMPTY; lost], vec![FAST; 10]].concat());
        assert!(levels.iter().all(|level| *level == Level::Ok), "{lost} lost: {levels:?}");
    }
    assert_eq!(levels_after("rate>=90", FAST, &[EMPTY; 10])[1..3], [Level::Ok, Level::Stale]);
    // A source that publishes the time since the last message is known to be silent after one window.
    let silent: Metrics = &[("message_age", NONE, 0), ("time_since_last_message_ms", 1005.0, 1)];
    assert_eq!(levels_after("rate>=90", FAST, &[silent; 10])[0], Level::Stale);
}

#[test]
fn a_clock_that_was_stepped_back_is_no_silence() {
    let slow: Metrics = &[("message_age", 2.0, 1), ("message_period", NONE, 0)];
    let sized: Metrics = &[("message_age", 2.0, 1), ("message_size", 320.0, 1)];
    let without_size: Metrics = &[("message_age", NONE, 0), ("message_size", NONE, 0)];
    // The system clock of the source is stepped back by 9 s after 10 windows. After the step, messages have sizes, but
    // no ages.
    for (before, empty, after, window, level) in [
        (slow, EMPTY, slow, 29, Level::Ok),
        (slow, EMPTY, EMPTY, 29, Level::Stale),
        (sized, without_size, sized, 15, Level::Stale),
    ] {
        let stops = (100..110).chain(101..);
        let windows = [[before; 10], [empty; 10], [after; 10]].concat();
        let levels = levels("rate>=0.9", stops.zip(windows));
        assert_eq!(levels[window], level, "{levels:?}");
        assert!(level != Level::Ok || levels.iter().all(|level| *level == Level::Ok), "{levels:?}");
    }
}

#[test]
fn sources_without_counts_are_silent_if_their_metrics_say_so() {
    let aged: Metrics = &[("message_age", 2.0, 1), ("message_period", NONE, 0)];
    let silent: Metrics =
        &[("message_age", NONE, 0), ("time_since_last_message_ms", 5.0, 1), ("other", 1.0, 9)];
    // The messages have no header, have a rate of 50 Hz, and then stop.
    let periods: Metrics = &[("message_age", NONE, 0), ("message_period", 20.0, 49)];
    let counter: Metrics = &[("frequency_hz", 3.0, 1)];
    for (first, then, level) in [
        (aged, aged, Level::Ok),
        (aged, silent, Level::Stale),
        (periods, periods, Level::Ok),
        (periods, EMPTY, Level::Stale),
        (EMPTY, EMPTY, Level::Ok), // at 1 Hz, no window has a period, so silence is unknown
        (counter, counter, Level::Ok),
        (counter, &[("frequency_hz", 0.0, 1)], Level::Stale),
    ] {
        assert_eq!(levels_after("rate>=0.5", first, &[then; 10])[9], level, "{then:?} after {first:?}");
    }
}

#[test]
fn conditions_fail_for_silent_sources_not_for_lost_samples() {
    // No call begins in this window, but an earlier call still waits.
    let waits: Metrics = &[("calls", 0.0, 1), ("oldest_call_ms", 2000.0, 1), ("round_trip_ms", NONE, 0)];
    let responds: Metrics = &[("calls", 1.0, 1), ("oldest_call_ms", 0.0, 1), ("round_trip_ms", 20.0, 1)];
    // A sample of the clock offset needs no message, so this source is silent although it has such a sample.
    let silent: Metrics =
        &[("message_age", NONE, 0), ("time_since_last_message_ms", 1500.0, 1), ("clock_offset_ms", 0.1, 1)];
    for (conditions, good, empty, empties, expected) in [
        (
            "/n:/imu: rate>=90 age<50",
            FAST,
            EMPTY,
            600,
            &[
                "/n:/imu: rate>=90 failed in 598 of 601 windows, first after 6.0 s: rate was 0.000",
                "/n:/imu: age<50 failed in 598 of 601 windows, first after 6.0 s: age was -",
            ][..],
        ),
        ("rate>=90 age<50", FAST, EMPTY, 2, &[]), // an overflow can leave two windows without samples
        (
            "frequency_hz>=1", // a counter has no samples in silence
            &[("frequency_hz", 3.0, 3)],
            &[("frequency_hz", 0.0, 0)],
            5,
            &["/n:/imu: frequency_hz>=1 failed in 5 of 8 windows, first after 4.0 s: frequency_hz was -"],
        ),
        (
            "oldest_call<1s round_trip<50ms",
            responds,
            waits,
            5,
            &["/n:/imu: oldest_call<1s failed in 5 of 8 windows, first after 4.0 s: oldest_call was 2000"],
        ),
        ("clock_offset<1", &[("message_age", 2.0, 1), ("clock_offset_ms", 0.1, 1)], silent, 5, &[]),
    ] {
        let mut recording =
            Recording::new(Duration::from_secs(1), conditions.parse::<Conditions>().unwrap().0);
        recording.started = at(0);
        let mut source = Source::new("/n:/imu");
        for (stop, metrics) in (1..).zip([vec![good; 3], vec![empty; empties]].concat()) {
            accept(&mut source, stop, stop, metrics);
            recording.add(&source.row);
        }
        recording.finish(&[&source.row], at(3 + empties as i64));
        assert_eq!(recording.failures(), expected, "{conditions}");
    }
}
