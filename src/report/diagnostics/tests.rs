// SPDX-License-Identifier: Apache-2.0

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rclrs::QoSProfile;

use super::*;
use crate::{
    graph::{PublisherCheck, Request},
    health::{Expectations, JudgedWindow},
    measure::{timer::Durations, windowed::Windowed},
    totals::Totals,
    window::{Distributions, Metric, Summary, Window, WindowStatistics},
};

const SECOND: Duration = Duration::from_secs(1);

fn node() -> NodeNames {
    let [name, fully_qualified, hardware_id] = ["listener", "/r1/listener", "imu_7"].map(str::to_owned);
    NodeNames { name, fully_qualified, hardware_id }
}

/// A source with that name, of a subscription of that topic if there is one, and with a window of 41 messages.
fn source(name: &str, topic: Option<&str>) -> Source {
    let qos = QoSProfile::topics_default();
    let request =
        |topic: &str| Request { topic: topic.into(), message_type: "sensor_msgs/msg/Imu".into(), qos };
    let check = topic.map(|topic| PublisherCheck::new(request(topic)));
    let source = Source::new(name.to_owned(), Arc::new(Windowed::new(Durations::default())), check);
    let ages =
        Summary { average: 12.5, minimum: 2.0, maximum: 40.0, standard_deviation: 1.0, sample_count: 41 };
    source.finish(Arc::new(WindowStatistics {
        window: Window { start: 0, stop: 1_000_000_000 },
        length: SECOND,
        clock_step: None,
        count: 41,
        unrecorded: 0,
        metrics: vec![(Metric::MessageAge, ages), (Metric::MessagePeriod, Summary::default())],
        distributions: Distributions::default(),
        totals: Some(Totals { received: 1000, lost: Some(7), ..Totals::default() }),
    }));
    source
}

/// A judge of three windows with so many messages.
fn judge(expectations: Expectations, messages: u64) -> Judge {
    let mut judge = Judge::new(expectations);
    for start in 0..3 {
        let window = Window { start: start * 1_000_000_000, stop: (start + 1) * 1_000_000_000 };
        judge.accept(&JudgedWindow { window, length: SECOND, messages }, |_| Some(12.5));
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

/// The spellings that other programs read, from where they are written or read.
const SPELLINGS: &[(&str, &str)] = &[
    // ros/diagnostics: diagnostic_updater/include/diagnostic_updater/update_functions.hpp, FrequencyStatus::run
    ("Events in window", "41"),
    ("Events since startup", "1000"),
    ("Duration of window (s)", "1.000000"),
    ("Actual frequency (Hz)", "41.000000"),
    ("Minimum acceptable frequency (Hz)", "90.000000"),
    ("Maximum acceptable frequency (Hz)", "110.000000"),
    // the same file, TimeStampStatus::run: in seconds, and with a colon
    ("Earliest timestamp delay:", "0.002000"),
    ("Latest timestamp delay:", "0.040000"),
    ("Latest acceptable timestamp delay:", "0.050000"),
    // NVIDIA-ISAAC-ROS/greenwave_monitor: greenwave_monitor/greenwave_monitor/ui_adaptor.py, UiDiagnosticData.from_status
    ("frame_rate_node", "41.000000"),
    ("current_delay_from_realtime_ms", "12.500000"),
    ("expected_frequency", "100.000000"),
    ("tolerance", "10.000000"),
    // the same repository: greenwave_monitor/include/greenwave_diagnostics.hpp
    ("total_dropped_frames", "7"),
    // our own
    ("message_age.average", "12.500000"),
    ("message_age.maximum", "40.000000"),
    ("warn_unless", "rate=90..110 age<50"),
    ("error_unless", "rate>=50"),
    ("failing", "rate>=50 (41) rate=90..110 (41)"),
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

#[test]
fn statuses_have_different_names() {
    let named = |name: &str| DiagnosticStatus { name: name.to_owned(), ..Default::default() };
    let mut statuses = ["b", "a", "b", "c", "b"].map(named);
    number_equal_names(&mut statuses);
    assert_eq!(statuses.map(|status| status.name), ["a", "b", "b (2)", "b (3)", "c"]);
}
