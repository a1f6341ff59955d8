// SPDX-License-Identifier: Apache-2.0

//! The statistics add one thread to a process.

use std::{collections::BTreeMap, fs, time::Duration};

use rclrs_topic_statistics::{NodeStatistics, TopicStatisticsOptions};
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::Int32};
use test_support::{in_a_process_of_its_own, node, wait_for, Spinning};

/// Returns the threads of this process: how many there are of each name.
fn threads() -> BTreeMap<String, i32> {
    let mut names = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread that ends meanwhile has no name.
        if let Ok(name) = fs::read_to_string(task.path().join("comm")) {
            *names.entry(name.trim().to_owned()).or_default() += 1;
        }
    }
    names
}

#[test]
fn the_statistics_of_a_node_are_one_thread() {
    in_a_process_of_its_own(|| {
        let (executor, node) = node("listener", &[]);
        // The middleware starts its threads with the first of each kind.
        let publisher = node.create_publisher::<Int32>("number").unwrap();
        let _plain = node.create_subscription("number", |_: Int32| ()).unwrap();
        let _spinning = Spinning::start(executor);
        wait_for("the subscription", || publisher.get_subscription_count().unwrap() == 1);
        publisher.publish(Int32 { data: 1 }).unwrap();
        let before = threads();

        let options = TopicStatisticsOptions::new().publish_period(Duration::from_millis(100));
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        let received = statistics.create_subscription("number", |_: Int32| ()).unwrap();
        let silent = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
        let stopwatch = statistics.create_stopwatch("call");
        wait_for("the subscription", || publisher.get_subscription_count().unwrap() == 2);
        publisher.publish(Int32 { data: 2 }).unwrap();
        stopwatch.time(|| ());
        // Publishers of the silent one are counted once per second.
        wait_for("a window", || received.totals().received == 1 && silent.latest().is_some());
        let first = silent.latest().unwrap().window.start;
        wait_for("windows of two seconds", || {
            let stop = silent.latest().unwrap().window.stop;
            stop.duration_since(first) > Some(Duration::from_secs(2))
        });

        let mut added = threads();
        for (name, count) in before {
            *added.entry(name).or_default() -= count;
        }
        added.retain(|_, count| *count != 0);
        assert_eq!(added, BTreeMap::from([("topic_stats".to_owned(), 1)]));
    });
}
