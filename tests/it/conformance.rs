// SPDX-License-Identifier: Apache-2.0

//! Compares figures with the C++ library libstatistics_collector 1.8.0 on twelve recorded series
//! (tests/data/README.md), and messages on `/statistics` with the windows in the process and the upstream definition.

use std::{env, fs};

use rclrs_topic_statistics::{FirstPeriod, Timestamp, Window};
use ros_env::sensor_msgs::msg::Imu;
use serde_json::Value;
use test_support::Program;
use topic_statistics_core::collector::{AgeCollector, PeriodCollector};

use crate::waiting::*;

/// The five figures of a metric: average, minimum, maximum, standard deviation, number of samples.
fn figures(summary: &Summary) -> [f64; 5] {
    let Summary { average, minimum, maximum, standard_deviation, sample_count, .. } = *summary;
    [average, minimum, maximum, standard_deviation, sample_count as f64]
}

/// Returns whether figures are equal within a tolerance relative to `reference`.
fn are_same(ours: [f64; 5], reference: [f64; 5], tolerance: f64) -> bool {
    ours.into_iter().zip(reference).all(|(figure, reference)| {
        (figure.is_nan() && reference.is_nan()) || (figure - reference).abs() <= tolerance * reference.abs()
    })
}

#[test]
fn figures_equal_those_of_libstatistics_collector() {
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
                let mut theirs = names.map(|name| window[metric][name].as_f64().unwrap_or(f64::NAN));
                // Where the libraries differ on purpose, both values are asserted.
                if ours.sample_count == 1 {
                    assert_eq!(std::mem::replace(&mut theirs[3], f64::NAN), 0.0, "{label}: a single sample");
                    single_samples += 1;
                }
                if ours.sample_count > 0 && ours.maximum < 0.0 {
                    // The C++ library returns `std::numeric_limits<double>::min()`, the smallest positive number. This
                    // is fixed in 2.0.1.
                    assert_eq!(std::mem::replace(&mut theirs[2], -1.005941), f64::MIN_POSITIVE, "{label}");
                    all_negative += 1;
                }
                assert!(are_same(figures(&ours), theirs, 1e-12), "{label}: {ours:?} {theirs:?}");
            }
            windows += 1;
        }
    }
    // The 20 windows with a single sample are the one of a series with one message, and ten ages and nine periods of
    // the 1 Hz series. The window with only negative ages is from the sender whose clock is ahead.
    assert_eq!((windows, single_samples, all_negative), (27, 20, 1));
}

#[test]
fn rclpy_receives_the_windows_of_the_process() {
    let (executor, node) = node("listener", &[]);
    // The windows are long, so that a slow reader misses no window.
    let options = options().publish_period(Duration::from_millis(500));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(1000), |_: Imu| ()).unwrap();
    let windows = test_support::collect(imu.statistics().watch());
    let mut reader = Reader::start(domain());
    read_all(&mut reader, "/listener:/imu", &[Metric::MessageAge, Metric::MessagePeriod]);
    let arguments = ["--rate", "200", "--stamp-age", "0.5", "--subscribers", "1", "--count", "100"];
    let _publisher = Program::start("publisher.py", &arguments, domain());
    let _spinning = Spinning::start(executor);
    for (metric, count) in [(Metric::MessageAge, 100.0), (Metric::MessagePeriod, 99.0)] {
        let in_rclpy = |read: &[test_support::Metric]| -> Vec<test_support::Metric> {
            let all = windows_of(read, "/listener:/imu", metric.name());
            all.filter(|window| window.count() > 0.0).cloned().collect()
        };
        reader.read_until("all messages", |read| {
            in_rclpy(read).iter().map(test_support::Metric::count).sum::<f64>() == count
        });
        for read in in_rclpy(&reader.metrics) {
            let windows = windows.lock().unwrap();
            let bounds = |window: Window| [window.start, window.stop].map(Timestamp::as_nanoseconds);
            let is_it = |window: &&Arc<WindowStatistics>| bounds(window.window) == [read.start, read.stop];
            let ours = figures(windows.iter().find(is_it).unwrap().get(metric).unwrap());
            let deviation = read.standard_deviation();
            let theirs = [read.average(), read.minimum(), read.maximum(), deviation, read.count()];
            assert!(are_same(theirs, ours, 0.0), "{read:?} {ours:?}");
            assert!(metric != Metric::MessageAge || (500.0..5000.0).contains(&read.minimum()), "{read:?}");
        }
    }
}

/// statistics_msgs is from the sourced ROS 2, or from this project if ROS 2 lacks the package.
#[test]
fn metrics_message_has_the_upstream_type_hash() {
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
