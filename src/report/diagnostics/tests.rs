// SPDX-License-Identifier: Apache-2.0

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use topic_statistics_core::{
    health::{Expectations, JudgedWindow, Value},
    record::{code::Durations, source_name::SourceNames, windowed::Windowed},
    totals::Totals,
    Metric, Summary, Window, WindowStatistics,
};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn node() -> NodeNames {
    let [name, hardware_id] = ["listener", "imu_7"].map(str::to_owned);
    NodeNames { name, hardware_id }
}

/// Returns a source with this name and a window of 41 messages. With a topic, the source is a subscription.
fn source(name: &str, topic: Option<&str>) -> Source {
    let names = Arc::<SourceNames>::default();
    let name = match topic {
        Some(topic) if name == node().name => {
            names.reserve("/r1/listener", &format!("/r1/listener:{topic}")).shown_as_node()
        }
        _ => names.reserve("/r1/listener", name),
    };
    let check = topic.map(|topic| Box::new(topic.to_owned()) as _);
    let source = Source::new(name, Arc::new(Windowed::new(Durations::default())), check);
    let mut ages = Summary::default();
    (ages.average, ages.minimum, ages.maximum) = (12.5, 2.0, 40.0);
    (ages.standard_deviation, ages.sample_count) = (1.0, 41);
    let metrics = vec![(Metric::MessageAge, ages), (Metric::MessagePeriod, Summary::default())];
    let mut window = WindowStatistics::new(Window::from_nanoseconds(0, 1_000_000_000), SECOND, 41, metrics);
    let mut totals = Totals::default();
    (totals.received, totals.lost) = (1000, Some(7));
    window.totals = Some(totals);
    source.finish(Arc::new(window));
    source
}

/// Returns the judge of a source's health after three windows with this number of messages each.
fn judge(expectations: Expectations, messages: u64) -> Judge {
    let mut judge = Judge::new(expectations);
    for start in 0..3 {
        let window = Window::from_nanoseconds(start * 1_000_000_000, (start + 1) * 1_000_000_000);
        judge.accept(&JudgedWindow::new(window, SECOND, Some(messages)), |_| Value::Measured(12.5));
    }
    judge
}

fn expect(warn_unless: &str, error_unless: &str) -> Expectations {
    let expected = Expectations::new().warn_unless(warn_unless.parse().unwrap());
    match error_unless {
        "" => expected,
        _ => expected.error_unless(error_unless.parse().unwrap()),
    }
}

fn values(status: &DiagnosticStatus) -> BTreeMap<&str, &str> {
    status.values.iter().map(|value| (value.key.as_str(), value.value.as_str())).collect()
}

/// The keys of the diagnostic status, spelled as other programs expect. A comment names the file of another program
/// that writes or reads the keys.
const SPELLINGS: &[(&str, &str)] = &[
    // a key of this library: the source name as on /statistics
    ("measurement_source_name", "/r1/listener:/imu"),
    // ros/diagnostics: diagnostic_updater/include/diagnostic_updater/update_functions.hpp, FrequencyStatus::run
    ("Events in window", "41"),
    ("Events since startup", "1000"),
    ("Duration of window (s)", "1.000000"),
    ("Actual frequency (Hz)", "41.000000"),
    ("Minimum acceptable frequency (Hz)", "90.000000"),
    ("Maximum acceptable frequency (Hz)", "110.000000"),
    // the same file, TimeStampStatus::run: the values are in seconds, and the keys end with a colon
    ("Earliest timestamp delay:", "0.002000"),
    ("Latest timestamp delay:", "0.040000"),
    ("Latest acceptable timestamp delay:", "0.050000"),
    // NVIDIA-ISAAC-ROS/greenwave_monitor: greenwave_monitor/greenwave_monitor/ui_adaptor.py,
    // UiDiagnosticData.from_status
    ("frame_rate_node", "41.000000"),
    ("frame_rate_msg", "41.000000"),
    ("current_delay_from_realtime_ms", "12.500000"),
    ("expected_frequency", "100.000000"),
    ("tolerance", "10.000000"),
    // the same repository: greenwave_monitor/include/greenwave_diagnostics.hpp
    ("total_dropped_frames", "7"),
    // keys of this library
    ("message_age.average", "12.500000"),
    ("message_age.maximum", "40.000000"),
    ("warn_unless", "rate=90..110 age<50"),
    ("error_unless", "rate>=50"),
    ("failing", "rate>=50 (41) rate=90..110 (41)"),
    ("windows_judged", "2 0 1 0"),
];

#[test]
fn the_keys_are_spelled_as_other_programs_read_them() {
    let source = source("/r1/listener:/imu", Some("/imu"));
    let status = status(&node(), &source, &judge(expect("rate=90..110 age<50", "rate>=50"), 41));
    assert_eq!(values(&status), SPELLINGS.iter().copied().collect());
    assert_eq!(
        (status.level, status.name.as_str(), status.hardware_id.as_str(), status.message.as_str()),
        (2, "listener: /imu", "imu_7", "rate 41 Hz, expected at least 50, since 2 s; 1 more")
    );
}

#[test]
fn a_target_has_its_own_key_and_what_is_not_known_has_none() {
    let source = source("/r1/listener:/imu", Some("/imu"));
    let of_target = status(&node(), &source, &judge(expect("rate=41", ""), 41));
    assert_eq!(values(&of_target)["Target frequency (Hz)"], "41.000000");
    let of_age = status(&node(), &source, &judge(expect("age<50", ""), 41));
    for key in [
        "expected_frequency",
        "tolerance",
        "Minimum acceptable frequency (Hz)",
        "message_period.average",
        "failing",
    ] {
        assert!(!values(&of_age).contains_key(key), "{key}");
    }
    assert_eq!((of_age.level, values(&of_age)["Actual frequency (Hz)"]), (0, "41.000000"));
}

#[test]
fn a_range_is_expected_only_if_both_limits_are_of_one_level() {
    let source = source("/r1/listener:/imu", Some("/imu"));
    for (warn, error, range) in [
        ("rate>=90", "rate=50..150", None),
        ("rate>=90 age<50", "rate<=150", None),
        ("age<50", "rate=50..150", Some(("100.000000", "50.000000"))),
        ("rate>=90 rate<=110", "rate>=50", Some(("100.000000", "10.000000"))),
    ] {
        let status = status(&node(), &source, &judge(expect(warn, error), 100));
        let values = values(&status);
        let value = |key: &str| values.get(key).copied();
        assert_eq!(value("expected_frequency").zip(value("tolerance")), range, "{warn} and {error}");
        assert!(value("Maximum acceptable frequency (Hz)").is_some(), "{warn} and {error}");
    }
}

#[test]
fn the_task_is_the_topic_or_the_name_of_the_source() {
    for (name, topic, task) in [
        ("/r1/listener:/imu", Some("/imu"), "listener: /imu"),
        ("/r1/listener:/out", None, "listener: /out"),
        ("/r1/listener:get_imu/front", None, "listener: get_imu/front"),
        ("listener", Some("/imu"), "listener: /imu"),
        ("front imu", Some("/imu"), "listener: front imu"),
        ("evil\u{1b}[2J", None, "listener: evil\\u{1b}[2J"),
    ] {
        let status = status(&node(), &source(name, topic), &judge(expect("rate>=1", ""), 41));
        assert_eq!(status.name, task);
    }
}
