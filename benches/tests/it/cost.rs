// SPDX-License-Identifier: Apache-2.0

//! The memory, threads and publishers of a node's statistics.

use std::time::Duration;

use benchmarks::heap;
use rclrs_topic_statistics::{NodeStatistics, StatisticsOptions};
use ros_env::sensor_msgs::msg::Imu;
use test_support::{node, wait_for};

use crate::counting::{allocations, bytes};

/// Returns options with windows that do not end during a test.
fn options() -> StatisticsOptions {
    StatisticsOptions::new().publish_period(Duration::from_secs(3600))
}

#[test]
fn a_subscription_costs_at_most_2_kb_and_a_node_30_kb() {
    const COUNT: usize = 50;
    let (_executor, node) = node("weighing", &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let first = statistics.create_subscription("imu", |_: Imu| ()).unwrap(); // loads the type's introspection
    let before = bytes();
    let plain: Vec<_> =
        (0..COUNT).map(|_| node.create_subscription::<Imu, _>("imu", |_: Imu| ()).unwrap()).collect();
    let plain_bytes = bytes() - before;
    let before = bytes();
    let measured: Vec<_> =
        (0..COUNT).map(|_| statistics.create_subscription("imu", |_: Imu| ()).unwrap()).collect();
    let measured_bytes = bytes() - before;
    let beyond = (measured_bytes - plain_bytes) / COUNT as i64;
    println!("bytes_per_subscription={beyond}");
    assert!((500..=2048).contains(&beyond), "{measured_bytes} of {COUNT}, {plain_bytes} of plain ones");
    drop((first, plain, measured));

    // The guard of a stopwatch and the increment of a counter must allocate nothing.
    let (stopwatch, counter) = (statistics.create_stopwatch("call"), statistics.create_counter("frames"));
    let before = allocations();
    for _ in 0..10_000 {
        drop(stopwatch.start());
        stopwatch.time(|| counter.increment());
    }
    assert_eq!(allocations(), before);

    // Uses medians, because threads of the middleware also allocate memory during the measurement.
    let kilobytes = |counters: usize| {
        let mut all = std::array::from_fn::<_, 11, _>(|_| {
            let before = heap();
            let statistics = NodeStatistics::with_options(&node, options()).unwrap();
            let counters: Vec<_> =
                (0..counters).map(|number| statistics.create_counter(format!("of_{number}"))).collect();
            let after = heap();
            drop((counters, statistics));
            after.saturating_sub(before) / 1000
        });
        all.sort_unstable();
        all[all.len() / 2]
    };
    // A counter has one metric. With the ninth metric of a node, the publisher gets a deeper history.
    let [none, eight, nine] = [0, 8, 9].map(kilobytes);
    println!("kilobytes_per_node={none}");
    let is_right = (10..=30).contains(&none) && eight < none + 15 && nine > eight + 15;
    assert!(is_right, "{none} kB, with eight counters {eight}, with nine {nine}");
}

#[test]
fn a_node_has_one_thread_and_publisher_for_all_subscriptions() {
    if test_support::shares_its_process() {
        return;
    }
    let (_executor, node) = node("many", &[]);
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.trim() == "topic_stats").count()
    };
    let statistics = NodeStatistics::new(&node).unwrap();
    let mut subscriptions = vec![];
    for count in [1, 1000] {
        subscriptions.resize_with(count, || statistics.create_subscription("imu", |_: Imu| ()).unwrap());
        // The test counts threads by name. The thread sets its name after it has started, so the test waits.
        wait_for("thread", || threads() == 1);
        wait_for("publisher in the graph", || node.count_publishers("/statistics").unwrap() == 1);
    }
    drop((subscriptions, statistics));
    wait_for("end of the thread", || threads() == 0);
}
