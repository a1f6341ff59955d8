// SPDX-License-Identifier: Apache-2.0

//! A talker, a listener with statistics and an rclpy reader of /statistics: three processes with real DDS.

use test_support::{domain, of, preload, Metric, Process, Reader};

const IMU: &str = "/listener:/imu";
const CHATTER: &str = "/listener:/chatter";

/// Returns the windows with messages, except the first and the last: they may be partial.
fn full_windows(windows: &[Metric]) -> &[Metric] {
    let with_messages = |window: &Metric| window.count() > 0.0;
    let first = windows.iter().position(with_messages).unwrap();
    let last = windows.iter().rposition(with_messages).unwrap();
    &windows[first + 1..last]
}

#[test]
fn statistics_of_a_real_topic_match_what_the_talker_did() {
    let domain = domain();
    let mut reader = Reader::start(domain);
    let _listener = Process::start(env!("CARGO_BIN_EXE_listener"), &[], domain);
    let talker = Process::start(
        env!("CARGO_BIN_EXE_talker"),
        &["--ros-args", "-p", "rate:=20.0", "-p", "stamp_age:=0.05"],
        domain,
    );

    // If the talker is late, a window has fewer messages.
    let at_20_hz = |window: &Metric| window.count() > 15.0 && (window.average() - 50.0).abs() < 2.5;
    let are_at_20_hz = |metrics: &[Metric]| {
        [IMU, CHATTER].into_iter().all(|source| {
            of(metrics, source, "message_period").filter(|window| at_20_hz(window)).count() >= 5
        })
    };
    reader.read_until("five windows of 50 ms, within 5 %", are_at_20_hz);
    talker.stop();
    let is_silent = |metrics: &[Metric]| {
        let silent = |source| {
            let windows: Vec<_> = of(metrics, source, "message_period").collect();
            windows.len() > 8 && windows[windows.len() - 2..].iter().all(|window| window.count() == 0.0)
        };
        silent(IMU) && silent(CHATTER)
    };
    reader.read_until("two silent windows after the talker's end", is_silent);

    for metric in &reader.metrics {
        let types: Vec<u64> = metric.points.iter().map(|(data_type, _)| *data_type).collect();
        assert_eq!(
            types,
            [1, 3, 2, 5, 4],
            "average, maximum, minimum, count, standard deviation: {metric:?}"
        );
        assert_eq!(metric.unit, "ms", "{metric:?}");
        assert!([IMU, CHATTER].contains(&metric.source.as_str()), "{metric:?}");
        assert!(metric.stop > metric.start, "{metric:?}");
        if metric.count() == 0.0 {
            assert!(metric.average().is_nan() && metric.minimum().is_nan() && metric.maximum().is_nan());
        }
        if metric.count() < 2.0 {
            assert!(metric.standard_deviation().is_nan(), "{metric:?}");
        }
    }

    let ages = reader.windows(IMU, "message_age");
    let periods = reader.windows(IMU, "message_period");
    for windows in
        [&ages, &periods, &reader.windows(CHATTER, "message_age"), &reader.windows(CHATTER, "message_period")]
    {
        for (window, next) in windows.iter().zip(&windows[1..]) {
            assert_eq!(window.stop, next.start, "there is no gap between windows: {windows:#?}");
        }
    }

    let mut messages = 0.0;
    for age in &ages {
        // The two metrics of a window are two messages. The last one may not be received yet.
        let Some(period) = periods.iter().find(|period| period.start == age.start) else { continue };
        assert_eq!(age.stop, period.stop);
        assert_eq!(
            period.count(),
            (age.count() - 1.0).max(0.0),
            "n messages: n ages, n-1 periods: {age:?} {period:?}"
        );
        messages += age.count();
    }
    assert!(messages > 60.0, "{messages} messages in all");

    for age in full_windows(&ages).iter().filter(|age| age.count() > 0.0) {
        assert!(age.minimum() >= 50.0, "stamped 50 ms in the past: {age:?}");
        assert!(age.average() >= age.minimum() && age.average() <= age.maximum(), "{age:?}");
        // A generous bound for the delay of the fastest message of a second.
        assert!(age.minimum() < 150.0, "{age:?}");
    }
    for age in reader.windows(CHATTER, "message_age") {
        assert_eq!(age.count(), 0.0, "std_msgs/String has no header: {age:?}");
    }
}

#[test]
fn a_callback_that_blocks_the_executor_does_not_silence_the_statistics() {
    let domain = domain();
    let mut reader = Reader::start(domain);
    let _listener = Process::start(
        env!("CARGO_BIN_EXE_listener"),
        &["--ros-args", "-p", "callback_duration:=5.0"],
        domain,
    );
    let _talker = Process::start(env!("CARGO_BIN_EXE_talker"), &["--ros-args", "-p", "rate:=20.0"], domain);

    // Each callback starts seconds after the previous one. The windows in between have no messages, and the age of the
    // next message is its waiting time.
    reader.read_until("age of seconds after silent windows", |metrics| {
        let ages: Vec<&Metric> = of(metrics, IMU, "message_age").collect();
        let is_late = |window: &Metric| window.count() == 1.0 && window.minimum() > 4000.0;
        ages.windows(3).any(|three| three[0].count() == 0.0 && three[1].count() == 0.0 && is_late(three[2]))
    });
    let ages = reader.windows(IMU, "message_age");
    for window in &ages {
        let seconds = (window.stop - window.start) as f64 * 1e-9;
        assert!(seconds < 3.0, "every window ended in time: {window:?}");
    }
}

#[test]
fn what_a_middleware_writes_to_standard_output_is_not_in_that_of_the_reader() {
    let Some(library) = preload::library("noisy_rcl") else { return };
    let domain = domain();
    let _listener = Process::start(env!("CARGO_BIN_EXE_listener"), &[], domain);
    let mut command = Reader::command(domain, 100);
    preload::preload(&mut command, &library);
    let mut reader: Reader = command.spawn().unwrap().into();
    reader.read_until("metrics, without other lines", |metrics| metrics.len() >= 4);
}
