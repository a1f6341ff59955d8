// SPDX-License-Identifier: Apache-2.0

//! The statistics of a real topic, compared with an independent script's statistics of recorded messages.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, OnceLock, Weak},
};

use rclrs::*;
use rclrs_topic_statistics::{MeasuredSubscriptionState, NodeStatistics, Timestamp};
use ros_env::sensor_msgs::msg::Imu;
use serde_json::{json, Value};
use test_support::{domain, node, Metric, Program, Reader, Spinning};

/// Returns the results of numpy: the five values of age and period of each window. `null` means NaN.
fn computed(messages: &[[i64; 2]], windows: &[[i64; 2]]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/window_statistics.py");
    let mut python =
        Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = json!({ "messages": messages, "windows": windows }).to_string();
    python.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asserts that published and computed values are equal, to 1e-9 of the value.
fn assert_same(published: &Metric, computed: &Value) {
    let figures = computed.as_array().unwrap();
    let published_figures = [
        published.average(),
        published.maximum(),
        published.minimum(),
        published.count(),
        published.standard_deviation(),
    ];
    for (published_figure, computed) in published_figures.iter().zip(figures) {
        match computed.as_f64() {
            Some(computed) => assert!(
                (published_figure - computed).abs() <= 1e-9 * computed.abs(),
                "{published_figure} {computed}: {published:?} {figures:?}"
            ),
            None => assert!(published_figure.is_nan(), "{published:?} {figures:?}"),
        }
    }
}

#[test]
fn every_window_of_a_real_topic_equals_what_numpy_computes_from_the_recorded_messages() {
    let domain = domain();
    let (executor, node) = node("recorder", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let messages = Arc::new(Mutex::new(vec![]));
    let itself: Arc<OnceLock<Weak<MeasuredSubscriptionState<Imu>>>> = Arc::default();
    let subscription = statistics
        .create_subscription("imu".keep_last(1000), {
            let (messages, itself) = (Arc::clone(&messages), Arc::clone(&itself));
            move |_: Imu| {
                let Some(subscription) = itself.get().and_then(Weak::upgrade) else { return };
                let times = subscription.last_message().unwrap();
                messages
                    .lock()
                    .unwrap()
                    .push([times.callback, times.header.unwrap()].map(Timestamp::as_nanoseconds));
            }
        })
        .unwrap();
    itself.set(Arc::downgrade(&subscription)).unwrap(); // no callback runs before the executor spins
    let _spinning = Spinning::start(executor);

    let mut reader = Reader::start(domain);
    let mut publisher = Program::start("publisher.py", &["--rate", "200", "--stamp-age", "0.003"], domain);
    let count = |metrics: &[Metric], full: bool| {
        test_support::of(metrics, "/recorder:/imu", "message_period")
            .filter(|window| (window.count() > 0.0) == full)
            .count()
    };
    reader.read_until("five windows with messages", |metrics| {
        let ages = test_support::of(metrics, "/recorder:/imu", "message_age").map(Metric::count);
        count(metrics, true) >= 5 && ages.sum::<f64>() > 600.0
    });
    publisher.send("stop");
    let silent = count(&reader.metrics, false);
    reader.read_until("a silent window after them", |metrics| count(metrics, false) >= silent + 2);

    let messages = messages.lock().unwrap().clone();
    assert_eq!(subscription.totals().received, messages.len() as u64);
    let (ages, periods) =
        (reader.windows("/recorder:/imu", "message_age"), reader.windows("/recorder:/imu", "message_period"));
    let windows: Vec<[i64; 2]> = periods.iter().map(|window| [window.start, window.stop]).collect();
    let computed = computed(&messages, &windows);
    let mut compared = 0;
    for (period, computed) in periods.iter().zip(&computed) {
        assert_same(period, &computed["period"]);
        // The two metrics of a window are two messages. The first may have been published before the reader subscribed.
        let Some(age) = ages.iter().find(|age| age.start == period.start) else { continue };
        assert_same(age, &computed["age"]);
        compared += age.count() as usize;
    }
    assert!(compared > 500 && compared <= messages.len(), "{compared} of {} messages", messages.len());
}
