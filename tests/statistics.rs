//! A talker, a listener with statistics and an rclpy reader of /statistics: three processes over real DDS.

mod common;

use common::{domain, of, Metric, Process, Reader};

const TALKER: &str = env!("CARGO_BIN_EXE_talker");
const LISTENER: &str = env!("CARGO_BIN_EXE_listener");
const IMU: &str = "/listener:/imu";
const CHATTER: &str = "/listener:/chatter";

/// Windows through all of which messages came: not the first with any, nor the last.
fn full_windows(windows: &[Metric]) -> &[Metric] {
    let with_messages = |window: &Metric| window.count() > 0.0;
    let first = windows.iter().position(with_messages).unwrap();
    let last = windows.iter().rposition(with_messages).unwrap();
    &windows[first + 1..last]
}

#[test]
fn statistics_of_a_real_topic_tell_what_the_talker_really_did() {
    let domain = domain(0);
    let mut reader = Reader::start(domain);
    let _listener = Process::start(LISTENER, &[], domain);
    let talker =
        Process::start(TALKER, &["--ros-args", "-p", "rate:=100.0", "-p", "stamp_age:=0.05"], domain);

    let has_full_windows = |metrics: &[Metric]| {
        of(metrics, IMU, "message_period").filter(|window| window.count() > 0.0).count() >= 6
            && of(metrics, CHATTER, "message_period").filter(|window| window.count() > 0.0).count() >= 6
    };
    reader.read_until("six windows with messages", has_full_windows);
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
            assert_eq!(window.stop, next.start, "windows follow each other without a gap: {windows:#?}");
        }
    }

    let mut messages = 0.0;
    for age in &ages {
        // The two metrics of a window are two messages; the last may not have come yet.
        let Some(period) = periods.iter().find(|period| period.start == age.start) else { continue };
        assert_eq!(age.stop, period.stop);
        assert_eq!(
            period.count(),
            (age.count() - 1.0).max(0.0),
            "n messages: n ages, n-1 periods: {age:?} {period:?}"
        );
        messages += age.count();
    }
    assert!(messages > 300.0, "{messages} messages in all");

    for age in full_windows(&ages) {
        assert!(age.minimum() >= 50.0, "stamped 50 ms in the past: {age:?}");
        assert!(age.average() >= age.minimum() && age.average() <= age.maximum(), "{age:?}");
        // A generous bound: what it takes to get here from the talker, on a busy machine.
        assert!(age.average() < 150.0, "{age:?}");
    }
    for periods in [periods, reader.windows(CHATTER, "message_period")] {
        let full = full_windows(&periods);
        assert!(full.len() >= 4, "{periods:#?}");
        // A talker that was held up has a window with a longer one.
        let mut averages: Vec<f64> = full.iter().map(Metric::average).collect();
        averages.sort_by(f64::total_cmp);
        let median = averages[averages.len() / 2];
        assert!((median - 10.0).abs() < 0.5, "100 Hz is a period of 10 ms within 5 %: {median} of {full:#?}");
    }

    for age in reader.windows(CHATTER, "message_age") {
        assert_eq!(age.count(), 0.0, "std_msgs/String has no header: {age:?}");
    }
}

#[test]
fn a_callback_that_blocks_the_executor_does_not_silence_the_statistics() {
    let domain = domain(1);
    let mut reader = Reader::start(domain);
    let _listener = Process::start(LISTENER, &["--ros-args", "-p", "callback_duration:=5.0"], domain);
    let _talker = Process::start(TALKER, &["--ros-args", "-p", "rate:=20.0"], domain);

    // Each callback starts seconds after the one before, so there are windows without any in between, and the age
    // of the next message tells how long it waited.
    reader.read_until("age of seconds after silent windows", |metrics| {
        of(metrics, IMU, "message_age").any(|window| window.count() == 1.0 && window.minimum() > 4000.0)
    });

    let ages = reader.windows(IMU, "message_age");
    let late = ages.iter().position(|window| window.count() == 1.0 && window.minimum() > 4000.0).unwrap();
    assert!(ages[..late].iter().rev().take_while(|window| window.count() == 0.0).count() >= 2, "{ages:#?}");
    for window in &ages {
        let seconds = (window.stop - window.start) as f64 * 1e-9;
        assert!(seconds < 3.0, "every window was ended in time: {window:?}");
    }
}
