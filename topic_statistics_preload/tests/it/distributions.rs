// SPDX-License-Identifier: Apache-2.0

//! Distributions of the messages that an rclpy node takes, read by rclrs.

use std::sync::{Arc, Mutex};

use rclrs::*;
use ros_env::topic_statistics_interfaces::msg::MetricsDistribution;
use test_support::{domain, node, of, wait_for, Program, Spinning};

use crate::{preloaded, side_by_side::read};

const COUNT: u64 = 300;

#[test]
fn distributions_have_the_samples_of_their_windows_and_percentiles() {
    let (executor, node) = node("reader", &[]);
    let (windows, _subscription) = read(&node, "/statistics");
    let distributions = Arc::<Mutex<Vec<MetricsDistribution>>>::default();
    let to = Arc::clone(&distributions);
    let store = move |message: MetricsDistribution| to.lock().unwrap().push(message);
    let _distributions = node.create_subscription("/statistics/distribution".keep_last(1000), store).unwrap();
    let _spinning = Spinning::start(executor);
    let mut command = Program::command("subscriber.py", &[], domain());
    preloaded(&mut command, &[("DISTRIBUTIONS", "true")]);
    let mut subscriber = Program::from(command.spawn().unwrap());
    let source = "/subscriber:/imu";
    wait_for("windows", || of(&windows.lock().unwrap(), source, "message_age").next().is_some());
    let arguments = ["--rate", "100", "--stamp-age", "0.1", "--count", "300", "--subscribers", "1"];
    let _publisher = Program::start("publisher.py", &arguments, domain());
    let of_metric = |metric: &str| -> Vec<MetricsDistribution> {
        let all = distributions.lock().unwrap();
        all.iter()
            .filter(|message| message.measurement_source_name == source && message.metrics_source == metric)
            .cloned()
            .collect()
    };
    let count = |metric: &str| of_metric(metric).iter().map(|message| message.count).sum::<u64>();
    wait_for("all messages", || count("message_age") >= COUNT);
    // The last callback may still run.
    wait_for("all callbacks", || subscriber.request("count").parse() == Ok(COUNT));

    let mut compared = 0;
    for metric in ["message_age", "message_period"] {
        let windows = windows.lock().unwrap();
        for distribution in of_metric(metric) {
            let start = i64::from(distribution.window_start.sec) * 1_000_000_000
                + i64::from(distribution.window_start.nanosec);
            let Some(window) = of(&windows, source, metric).find(|window| window.start == start) else {
                continue; // the reader has not received it yet
            };
            compared += 1;
            assert_eq!(distribution.count as f64, window.count(), "{distribution:?}");
            assert_eq!((distribution.minimum, distribution.maximum), (window.minimum(), window.maximum()));
            let counts = distribution.positive_counts.iter().sum::<u64>();
            assert_eq!(counts + distribution.zero_count, distribution.count, "{distribution:?}");
            let is_inside = (window.minimum()..=window.maximum()).contains(&distribution.p50);
            assert!(is_inside || window.count() < 2.0, "{distribution:?}");
            assert_eq!(distribution.p99.is_nan(), window.count() < 100.0, "{distribution:?}");
        }
    }
    assert!(compared >= 4, "{compared} of them");
    assert_eq!(of_metric("message_age")[0].unit, "ms");
}
