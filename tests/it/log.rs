// SPDX-License-Identifier: Apache-2.0

//! The table in the node's log.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{NodeStatistics, NodeStatisticsOptions, TopicStatisticsOptions};
use ros_env::{rcl_interfaces::msg::Log, std_msgs::msg::Int32};
use test_support::{in_a_process_of_its_own, node, wait_for, Spinning};

#[test]
fn the_nodes_log_has_a_table_of_each_window() {
    in_a_process_of_its_own(|| {
        let (executor, node) = node("bridge", &[]);
        let window = TopicStatisticsOptions::new().publish_period(Duration::from_millis(500));
        let options = NodeStatisticsOptions::new().topic_statistics(window).log_table(true);
        let statistics = NodeStatistics::with_options(&node, options).unwrap();
        let number = statistics.create_publisher::<Int32>("number").unwrap();
        let (stopwatch, counter) =
            (statistics.create_stopwatch("get_pose"), statistics.create_counter("frames"));
        let logs = Arc::new(Mutex::new(vec![]));
        let to = Arc::clone(&logs);
        let listener = executor.create_node("operator").unwrap();
        let _rosout = listener
            .create_subscription::<Log, _>("/rosout".keep_last(100).transient_local(), move |log: Log| {
                to.lock().unwrap().push(log)
            })
            .unwrap();
        let _spinning = Spinning::start(executor);

        let figures = |table: &Log, name: &str| -> (Vec<f64>, String) {
            let line = table.msg.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[1..6].iter().map(|word| word.parse().unwrap()).collect(), words[6..].join(" "))
        };
        // A busy machine may cut a window short, and its scheduler may end the sources' windows at different times.
        let is_whole = |table: &&Log| {
            let [frames, pose] = ["/bridge:frames", "/bridge:get_pose"].map(|name| figures(table, name).0);
            // The window may end during the call.
            (0.2..5.0).contains(&(frames[0] / frames[1])) && (pose[0] * 3.0 - frames[0]).abs() <= 3.0
        };
        let mut table = None;
        wait_for("table of a window of 0.5 s, in which all sources have as many samples", || {
            number.publish(Int32 { data: 1 }).unwrap();
            stopwatch.time(|| counter.add(3));
            let logs = logs.lock().unwrap();
            let tables = logs.iter().filter(|log| {
                ["/number ", ":get_pose ", ":frames "].iter().all(|name| log.msg.contains(name))
            });
            // The first window of a source that is created after others is longer than their windows.
            let tables: Vec<_> = tables.skip(1).filter(|log| !log.msg.contains(" - ")).take(5).collect();
            table = tables.iter().copied().find(is_whole).cloned();
            assert!(table.is_some() || tables.len() < 5, "{tables:#?}");
            table.is_some()
        });
        let table = table.unwrap();
        assert_eq!(table.name, "bridge");
        let lines: Vec<&str> = table.msg.lines().collect();
        assert_eq!(lines[0], "Topic statistics of 500ms:");
        let columns: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(columns, ["name", "count", "Hz", "mean", "min", "max", "of"]);
        let (frames, metric) = figures(&table, "/bridge:frames");
        assert_eq!(metric, "frequency_hz [Hz]");
        assert!(frames[0] % 3.0 == 0.0, "{frames:?}");
        assert_eq!(figures(&table, "/bridge:get_pose").1, "duration_ms [ms]");
        assert_eq!(figures(&table, "/bridge:/number").1, "publish_period [ms]");
    });
}
