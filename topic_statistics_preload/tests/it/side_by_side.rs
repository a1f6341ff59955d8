// SPDX-License-Identifier: Apache-2.0

//! An rclrs node with the library's statistics and the preloaded ones, of the same messages.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
};

use rclrs::*;
use rclrs_topic_statistics::{Metric as Quantity, NodeStatistics, TopicStatisticsOptions};
use ros_env::{sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage};
use test_support::{domain, itself, lines, node, of, wait_for, Metric, Process, Program, Spinning};

use crate::preloaded;

const SOURCE: &str = "/both:/imu";
const COUNT: f64 = 300.0;
const METRICS: [Quantity; 4] =
    [Quantity::MessageAge, Quantity::MessagePeriod, Quantity::SourceToCallback, Quantity::PublicationSeqGap];

/// The node, until its standard input ends.
#[test]
#[ignore = "a program of the test below"]
fn both() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("both").unwrap();
    let options = TopicStatisticsOptions::new().metrics(METRICS).publish_topic("/own_statistics");
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    // On a worker, a callback follows the take at once.
    let worker = node.create_worker(());
    let imu = "imu".keep_last(1000);
    let _imu = statistics.create_worker_subscription(&worker, imu, |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    lines(std::io::stdin()).iter().for_each(drop);
}

/// The metrics on a topic of statistics.
type Received = Arc<Mutex<Vec<Metric>>>;

fn read(node: &Node, topic: &str) -> (Received, Subscription<MetricsMessage>) {
    let received = Received::default();
    let to = Arc::clone(&received);
    let store = move |message: MetricsMessage| to.lock().unwrap().push(message.into());
    (received, node.create_subscription(topic.keep_last(1000), store).unwrap())
}

#[test]
fn an_rclrs_node_has_the_same_figures_by_the_library_and_by_preloading() {
    let (executor, node) = node("reader", &[]);
    let (own, _own_subscription) = read(&node, "/own_statistics");
    let (preload, _preload_subscription) = read(&node, "/statistics");
    let _spinning = Spinning::start(executor);
    let mut command = itself("side_by_side::both", domain());
    let names = METRICS.map(Quantity::name).join(",");
    preloaded(&mut command, &[("METRICS", &names)]);
    let _both = Process::spawn(command.stdout(Stdio::null()));
    let samples = |received: &Received, metric: &str| {
        of(&received.lock().unwrap(), SOURCE, metric).map(Metric::count).sum::<f64>()
    };
    let has_windows =
        |received: &Received| of(&received.lock().unwrap(), SOURCE, "message_age").next().is_some();
    wait_for("windows", || has_windows(&own) && has_windows(&preload));
    let arguments = ["--rate", "100", "--stamp-age", "0.1", "--count", "300", "--subscribers", "1"];
    let _publisher = Program::start("publisher.py", &arguments, domain());
    let is_complete = |received: &Received| {
        let ages: Vec<f64> =
            of(&received.lock().unwrap(), SOURCE, "message_age").map(Metric::count).collect();
        ages.iter().sum::<f64>() >= COUNT && ages.last() == Some(&0.0)
    };
    wait_for("all messages", || is_complete(&own) && is_complete(&preload));

    for (metric, count) in
        [("message_age", COUNT), ("source_to_callback_ms", COUNT), ("publication_seq_gap", COUNT - 1.0)]
    {
        assert_eq!([samples(&own, metric), samples(&preload, metric)], [count; 2], "{metric}");
    }
    // A message is taken just before its callback starts.
    let average = |received: &Received, metric: &str| {
        let received = received.lock().unwrap();
        let windows = of(&received, SOURCE, metric).filter(|window| window.count() > 0.0);
        windows.map(|window| window.average() * window.count()).sum::<f64>() / COUNT
    };
    for metric in ["message_age", "source_to_callback_ms"] {
        let (own, preload) = (average(&own, metric), average(&preload, metric));
        assert!(preload <= own && own - preload < 2.0, "{metric}: {own} ms, preloaded {preload} ms");
    }
    assert!(average(&preload, "message_age") >= 100.0);
    assert_eq!(average(&preload, "publication_seq_gap"), 0.0);
}
