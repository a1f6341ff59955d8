// SPDX-License-Identifier: Apache-2.0

//! Compares the library's figures with the figures of the C++ library libstatistics_collector 1.8.0, for twelve
//! recorded series (tests/data/README.md). Compares the message type with the upstream definition.

use std::{env, fs};

use rclrs_topic_statistics::{FirstPeriod, Summary};
use serde_json::Value;
use topic_statistics_core::collector::{AgeCollector, PeriodCollector};

/// Returns the five figures of a metric: average, minimum, maximum, standard deviation, number of samples.
pub fn figures(summary: &Summary) -> [f64; 5] {
    let Summary { average, minimum, maximum, standard_deviation, sample_count, .. } = *summary;
    [average, minimum, maximum, standard_deviation, sample_count as f64]
}

/// Returns whether figures are equal within a tolerance relative to `reference`.
pub fn are_same(ours: [f64; 5], reference: [f64; 5], tolerance: f64) -> bool {
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
                // Here the two libraries differ on purpose. The test asserts the value of each of them.
                if ours.sample_count == 1 {
                    assert_eq!(std::mem::replace(&mut theirs[3], f64::NAN), 0.0, "{label}: a single sample");
                    single_samples += 1;
                }
                if ours.sample_count > 0 && ours.maximum < 0.0 {
                    // If all samples are negative, the C++ library's maximum is `std::numeric_limits<double>::min()`,
                    // the smallest positive number. Version 2.0.1 corrects this.
                    assert_eq!(std::mem::replace(&mut theirs[2], -1.005941), f64::MIN_POSITIVE, "{label}");
                    all_negative += 1;
                }
                assert!(are_same(figures(&ours), theirs, 1e-12), "{label}: {ours:?} {theirs:?}");
            }
            windows += 1;
        }
    }
    // 20 windows have a single sample: one in a series with one message, and ten ages and nine periods of the 1 Hz
    // series. One window has only negative ages, because the clock of its sender is ahead.
    assert_eq!((windows, single_samples, all_negative), (27, 20, 1));
}

/// statistics_msgs is the package of the sourced ROS 2, or this project's copy if ROS 2 lacks the package.
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
