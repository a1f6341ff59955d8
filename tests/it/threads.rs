// SPDX-License-Identifier: Apache-2.0

//! The statistics add one thread to a process.

use std::{collections::BTreeMap, fs};

use ros_env::std_msgs::msg::Int32;
use test_support::{node, shares_its_process, wait_for, Spinning};

use crate::waiting::statistics;

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
    if shares_its_process() {
        return;
    }
    let (executor, node) = node("listener", &[]);
    // The middleware starts its threads with the first of each kind.
    let publisher = node.create_publisher::<Int32>("number").unwrap();
    let _plain = node.create_subscription("number", |_: Int32| ()).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("the subscription", || publisher.get_subscription_count().unwrap() == 1);
    publisher.publish(Int32 { data: 1 }).unwrap();
    let mut before = threads();

    let statistics = statistics(&node);
    let received = statistics.create_subscription("number", |_: Int32| ()).unwrap();
    statistics.create_stopwatch("call").time(|| ());
    wait_for("the subscription", || publisher.get_subscription_count().unwrap() == 2);
    publisher.publish(Int32 { data: 2 }).unwrap();
    wait_for("a window", || received.latest().is_some() && received.totals().received == 1);
    *before.entry("topic_stats".to_owned()).or_default() += 1;
    assert_eq!(threads(), before);
}
