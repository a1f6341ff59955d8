// SPDX-License-Identifier: Apache-2.0

//! Tests of expectations and conditions on sources of statistics: what their metrics tell of messages and of silence.

use std::time::Duration;

use topic_statistics_core::health::Level;
use topic_statistics_views::{
    expect::{ExpectationFile, Expected},
    recording::Recording,
    require::Conditions,
    row::{Figures, MetricFigures},
    testing::{at, S},
};

use super::{source::Source, SourceMetric};

const AGE: &str = "message_age";

/// The metrics of a window, by name with mean and count.
type Told = &'static [(&'static str, f64, u64)];

/// Judges windows of 1 s of a source of statistics; the first stops at `stop` (s) on its system clock. Returns the
/// levels.
fn levels(text: &str, windows: &[(i64, Told)]) -> Vec<Level> {
    let file = ExpectationFile::parse(&format!("topics: {{/imu: {{error_unless: {text}}}}}")).unwrap();
    let mut expected = Expected::new(file, Duration::from_secs(1));
    let mut source = Source::new("/imu");
    let windows = (100..).zip(windows).map(|(second, (stop, metrics))| {
        for &(name, mean, count) in *metrics {
            source.accept(SourceMetric {
                received_at: at(second),
                sender: Default::default(),
                source: "/imu".to_owned(),
                start: (stop - 1) * S,
                stop: stop * S,
                metric: MetricFigures {
                    name: name.to_owned(),
                    unit: String::new(),
                    figures: Figures { mean, min: mean, max: mean, std_dev: f64::NAN, count },
                },
            });
        }
        let settled = at(second) + Duration::from_millis(300);
        assert!(source.settle(settled));
        let judged = expected.judge(&["/imu".to_owned()], &[&source.row], settled);
        judged[0].health.level
    });
    windows.collect()
}

/// Returns the last level of these windows at `rate>=0.5`.
fn judge_told(windows: &[Told]) -> Level {
    let windows: Vec<_> = (100..).zip(windows.iter().copied()).collect();
    levels("rate>=0.5", &windows)[windows.len() - 1]
}

const NONE: f64 = f64::NAN;
const EMPTY: Told = &[("message_age", NONE, 0), ("message_period", NONE, 0)];

#[test]
fn a_window_that_lost_its_samples_is_no_silence_but_a_silent_source_is() {
    let fast: Told = &[("message_age", 2.0, 100), ("message_period", 10.0, 99)];
    // An overflow at the end of a window leaves this and the next one without figures.
    for lost in [1, 2] {
        let windows = [vec![fast; 10], vec![EMPTY; lost], vec![fast; 10]].concat();
        let windows: Vec<_> = (100..).zip(windows).collect();
        let levels = levels("rate>=90", &windows);
        assert!(levels.iter().all(|level| *level == Level::Ok), "{lost} lost: {levels:?}");
    }
    let windows: Vec<_> = (100..).zip([[fast; 10], [EMPTY; 10]].concat()).collect();
    assert_eq!(levels("rate>=90", &windows)[11..13], [Level::Ok, Level::Stale]);
    // A source that publishes its silence is known to be silent at once.
    let silent: Told = &[("message_age", NONE, 0), ("time_since_last_message_ms", 1005.0, 1)];
    let windows: Vec<_> = (100..).zip([[fast; 10], [silent; 10]].concat()).collect();
    assert_eq!(levels("rate>=90", &windows)[9..11], [Level::Ok, Level::Stale]);
}

#[test]
fn a_clock_that_was_stepped_back_is_no_silence_where_only_ages_tell() {
    let slow: Told = &[("message_age", 2.0, 1), ("message_period", NONE, 0)];
    let sized: Told = &[("message_age", 2.0, 1), ("message_size", 320.0, 1)];
    // After 10 windows the clock is stepped back by 9 s. The messages of the next ones have no age.
    let stepped = |before: Told, empty: Told, empties: i64, after: Told| {
        let before = (100..110).map(|stop| (stop, before));
        let empty = (0..empties).map(|window| (101 + window, empty));
        let after = (0..10).map(|window| (101 + empties + window, after));
        levels("rate>=0.9", &before.chain(empty).chain(after).collect::<Vec<_>>())
    };
    let levels = stepped(slow, EMPTY, 10, slow);
    assert!(levels.iter().all(|level| *level == Level::Ok), "{levels:?}");
    let levels = stepped(slow, EMPTY, 10, EMPTY);
    assert_eq!(levels.last(), Some(&Level::Stale), "{levels:?}");
    // The sizes do not depend on the clock.
    let unsized_: Told = &[("message_age", NONE, 0), ("message_size", NONE, 0)];
    let levels = stepped(sized, unsized_, 10, sized);
    assert_eq!(levels[10..16].last(), Some(&Level::Stale), "{levels:?}");
}

#[test]
fn a_source_that_does_not_tell_its_messages_is_silent_only_if_its_metrics_say_so() {
    let repeat = |one: Told, other: Told| judge_told(&[[one; 10], [other; 10]].concat());
    let aged: &[_] = &[("message_age", 2.0, 1), ("message_period", NONE, 0)];
    let silent: &[_] = &[("message_age", NONE, 0), ("time_since_last_message_ms", 5.0, 1), ("other", 1.0, 9)];
    assert_eq!((repeat(aged, aged), repeat(aged, silent)), (Level::Ok, Level::Stale));
    // Without a header, at 50 Hz, and then silent.
    let periods: &[_] = &[("message_age", NONE, 0), ("message_period", 20.0, 49)];
    let no_period: &[_] = &[("message_age", NONE, 0), ("message_period", NONE, 0)];
    assert_eq!((repeat(periods, periods), repeat(periods, no_period)), (Level::Ok, Level::Stale));
    // At 1 Hz, a window has one message and no period: unknown.
    assert_eq!(repeat(no_period, no_period), Level::Ok);
    let counter: &[_] = &[("frequency_hz", 3.0, 1)];
    assert_eq!(
        (repeat(counter, counter), repeat(counter, &[("frequency_hz", 0.0, 1)])),
        (Level::Ok, Level::Stale)
    );
}

/// Records windows of 1 s of a source of statistics, each with these samples of its metrics by name, mean and count.
/// Returns the failures.
fn failures_of_source(conditions: &str, windows: &[&[(&str, f64, u64)]]) -> Vec<String> {
    let Conditions(conditions) = conditions.parse().unwrap();
    let mut recording = Recording::new(Duration::from_secs(1), conditions);
    recording.started = at(0);
    let mut source = Source::new("/n:/imu");
    for (stop, metrics) in (1..).zip(windows) {
        for &(name, mean, count) in *metrics {
            let figures = Figures { mean, min: mean, max: mean, std_dev: f64::NAN, count };
            let metric = MetricFigures { name: name.to_owned(), unit: String::new(), figures };
            let (received_at, source_name) = (at(stop), "/n:/imu".to_owned());
            let (start, stop) = ((stop - 1) * S, stop * S);
            let sender = Default::default();
            source.accept(SourceMetric { received_at, sender, source: source_name, start, stop, metric });
        }
        assert!(source.settle(at(stop) + Duration::from_millis(300)));
        recording.add(&source.row);
    }
    recording.finish(&[&source.row], at(windows.len() as i64));
    recording.failures()
}

#[test]
fn a_source_of_statistics_that_became_silent_fails_and_one_that_lost_samples_does_not() {
    let good: &[_] = &[(AGE, 2.0, 100), ("message_period", 10.0, 99)];
    let empty: &[_] = &[(AGE, f64::NAN, 0), ("message_period", f64::NAN, 0)];
    let failures_of = |conditions, good, empty, empties| {
        failures_of_source(conditions, &[vec![good; 3], vec![empty; empties]].concat())
    };
    assert_eq!(
        failures_of("/n:/imu: rate>=90 age<50", good, empty, 600),
        [
            "/n:/imu: rate>=90 failed in 598 of 601 windows, first after 6.0 s: rate was -",
            "/n:/imu: age<50 failed in 598 of 601 windows, first after 6.0 s: age was -"
        ]
    );
    assert!(failures_of("rate>=90 age<50", good, empty, 2).is_empty(), "one overflow can spoil two windows");
    // A counter has a frequency in silence, and no count.
    let failures =
        failures_of("frequency_hz>=1", &[("frequency_hz", 3.0, 3)], &[("frequency_hz", 0.0, 0)], 5);
    assert_eq!(
        failures,
        ["/n:/imu: frequency_hz>=1 failed in 5 of 8 windows, first after 4.0 s: frequency_hz was -"]
    );
    // A call waits in windows in which none begins.
    let waits: &[_] = &[("calls", 0.0, 1), ("oldest_call_ms", 2000.0, 1), ("round_trip_ms", f64::NAN, 0)];
    let responds: &[_] = &[("calls", 1.0, 1), ("oldest_call_ms", 0.0, 1), ("round_trip_ms", 20.0, 1)];
    assert_eq!(
        failures_of("oldest_call<1s round_trip<50ms", responds, waits, 5),
        ["/n:/imu: oldest_call<1s failed in 5 of 8 windows, first after 4.0 s: oldest_call was 2000"]
    );
    // A metric that needs no message is no evidence of silence: the state stays.
    let silent: &[_] =
        &[(AGE, f64::NAN, 0), ("time_since_last_message_ms", 1500.0, 1), ("clock_offset_ms", 0.1, 1)];
    assert!(
        failures_of("clock_offset<1", &[(AGE, 2.0, 1), ("clock_offset_ms", 0.1, 1)], silent, 5).is_empty()
    );
}
