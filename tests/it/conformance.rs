// SPDX-License-Identifier: Apache-2.0

//! The figures, compared with independent results: of the C++ library libstatistics_collector 1.8.0 on twelve recorded
//! series (tests/data/README.md), and of numpy (tests/window_statistics.py) on a real topic. And the message with
//! upstream's.

use std::{
    env, fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, OnceLock, Weak},
};

use rclrs_topic_statistics::{FirstPeriod, MeasuredSubscriptionState, Timestamp};
use ros_env::sensor_msgs::msg::Imu;
use serde_json::{json, Value};
use test_support::{Metric, Program};
use topic_statistics_core::collector::{AgeCollector, PeriodCollector};

use crate::waiting::*;

/// The five figures of a metric: average, minimum, maximum, standard deviation, number of samples.
type Figures = [f64; 5];

fn figures(summary: &Summary) -> Figures {
    let Summary { average, minimum, maximum, standard_deviation, sample_count, .. } = *summary;
    [average, minimum, maximum, standard_deviation, sample_count as f64]
}

/// Returns a JSON number. `null` is NaN.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Asserts that figures are equal, but for a tolerance relative to the second.
#[track_caller]
fn assert_same(ours: Figures, reference: Figures, tolerance: f64, label: &str) {
    for (figure, reference) in ours.into_iter().zip(reference) {
        let is_same = (figure - reference).abs() <= tolerance * reference.abs();
        assert!(
            is_same || (figure.is_nan() && reference.is_nan()),
            "{label}: {ours:?}, {figure:e} is not {reference:e}"
        );
    }
}

#[test]
fn figures_with_carried_periods_are_libstatistics_collectors() {
    let recorded: Value = serde_json::from_str(include_str!("../data/libstatistics_collector.json")).unwrap();
    let time = |text: &Value| -> i64 { text.as_str().unwrap().parse().unwrap() };
    let (mut windows, mut single_samples, mut all_negative) = (0, 0, 0);
    for series in recorded["cases"].as_array().unwrap() {
        let (mut ages, mut periods) =
            (AgeCollector::default(), PeriodCollector::new(FirstPeriod::CarriedOver));
        for (index, window) in series["windows"].as_array().unwrap().iter().enumerate() {
            for message in window["messages"].as_array().unwrap() {
                ages.accept(time(&message[1]), time(&message[0]));
                periods.accept(time(&message[0]));
            }
            for (metric, ours) in [("message_age", ages.take()), ("message_period", periods.take())] {
                let label = format!("{}, window {index}, {metric}", series["case"]);
                let names = ["average", "minimum", "maximum", "standard_deviation", "sample_count"];
                let mut theirs = names.map(|name| number(&window[metric][name]));
                // Where the two differ on purpose, both values are asserted.
                if ours.sample_count == 1 {
                    assert_eq!(std::mem::replace(&mut theirs[3], f64::NAN), 0.0, "{label}: a single sample");
                    single_samples += 1;
                }
                if ours.sample_count > 0 && ours.maximum < 0.0 {
                    // `std::numeric_limits<double>::min()`, the smallest positive number; fixed in 2.0.1.
                    assert_eq!(std::mem::replace(&mut theirs[2], -1.005941), f64::MIN_POSITIVE, "{label}");
                    all_negative += 1;
                }
                assert_same(figures(&ours), theirs, 1e-12, &label);
            }
            windows += 1;
        }
    }
    // 20: a single message, and ten ages and nine periods of the 1 Hz series. 1: of the sender whose clock is ahead.
    assert_eq!((windows, single_samples, all_negative), (27, 20, 1));
}

#[test]
fn windows_of_a_real_topic_in_rclpy_are_what_numpy_computes() {
    let (executor, node) = node("recorder", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let messages = Arc::new(Mutex::new(vec![]));
    let itself: Arc<OnceLock<Weak<MeasuredSubscriptionState<Imu>>>> = Arc::default();
    let (to, of_itself) = (Arc::clone(&messages), Arc::clone(&itself));
    let record = move |_: Imu| {
        let times = of_itself.get().and_then(Weak::upgrade).unwrap().last_message().unwrap();
        to.lock().unwrap().push([times.callback, times.header.unwrap()].map(Timestamp::as_nanoseconds));
    };
    let subscription = statistics.create_subscription("imu".keep_last(1000), record).unwrap();
    itself.set(Arc::downgrade(&subscription)).unwrap(); // no callback runs before the executor spins
    let mut reader = Reader::start(domain());
    read_all(&mut reader, "/recorder:/imu", &[SourceKind::Subscription.metrics()[1]]);
    let arguments = ["--rate", "200", "--stamp-age", "0.5", "--subscribers", "1", "--count", "300"];
    let _publisher = Program::start("publisher.py", &arguments, domain());
    let _spinning = Spinning::start(executor);
    let windows = |read: &[Metric], metric: &str| -> Vec<Metric> {
        of(read, "/recorder:/imu", metric).filter(|window| window.count() > 0.0).cloned().collect()
    };
    let total = |read: &[Metric], metric: &str| windows(read, metric).iter().map(Metric::count).sum::<f64>();
    reader.read_until("all messages", |read| total(read, "message_age") == 300.0);
    reader.read_until("both metrics of each window", |read| {
        read.last().is_some_and(|last| last.metric == "message_period")
    });

    let messages = messages.lock().unwrap().clone();
    assert_eq!((messages.len(), subscription.totals().received), (300, 300));
    let ages = windows(&reader.metrics, "message_age");
    let periods = windows(&reader.metrics, "message_period");
    assert_eq!(total(&reader.metrics, "message_period"), 300.0 - ages.len() as f64);
    let bounds: Vec<_> = ages.iter().map(|window| [window.start, window.stop]).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/window_statistics.py");
    let mut python = Command::new("python3");
    let mut python = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = json!({ "messages": messages, "windows": bounds }).to_string();
    python.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let computed: Vec<Value> = serde_json::from_slice(&python.wait_with_output().unwrap().stdout).unwrap();
    for window in ages.iter().chain(&periods) {
        let index = bounds.iter().position(|bounds| bounds[0] == window.start).unwrap();
        let name = if window.metric == "message_age" { "age" } else { "period" };
        let computed = [0, 2, 1, 4, 3].map(|figure| number(&computed[index][name][figure]));
        let deviation = window.standard_deviation();
        let ours = [window.average(), window.minimum(), window.maximum(), deviation, window.count()];
        assert_same(ours, computed, 1e-9, &format!("{window:?}"));
    }
    assert!(ages.iter().all(|window| window.minimum() >= 500.0), "{ages:?}");
}

/// statistics_msgs is the interface package of the sourced ROS 2, or of this project if ROS 2 has none.
#[test]
fn metrics_message_has_upstreams_type_hash() {
    let prefixes = env::var_os("AMENT_PREFIX_PATH").expect("a sourced ROS 2");
    let file = env::split_paths(&prefixes)
        .map(|prefix| prefix.join("share/statistics_msgs/msg/MetricsMessage.json"))
        .find(|file| file.is_file())
        .expect("statistics_msgs in a prefix on AMENT_PREFIX_PATH");
    let description: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let hashes = description["type_hashes"].as_array().unwrap();
    let own = hashes.iter().find(|hash| hash["type_name"] == "statistics_msgs/msg/MetricsMessage").unwrap();
    let upstream = "RIHS01_36a67fb499fc2a11b8b9ff9ac735ed76e8d5a1f7775d6d5b97b625188ec68e20";
    assert_eq!(own["hash_string"], upstream, "{}", file.display());
}
