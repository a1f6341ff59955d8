// SPDX-License-Identifier: Apache-2.0

//! Services, clients, timers and actions, with clients and services in other processes.

mod actions;
mod clients;
mod services;
mod timers;

use std::{sync::Arc, time::Duration};

use rclrs::Node;
use rclrs_topic_statistics::{
    watch, Metric, NodeStatistics, Summary, TopicStatisticsOptions, WindowStatistics,
};
use ros_env::test_msgs::srv::{BasicTypes_Request, BasicTypes_Response};
use test_support::wait_for;

/// Creates statistics with windows of 250 ms.
fn statistics(node: &Node) -> NodeStatistics {
    let options = TopicStatisticsOptions::new().publish_period(Duration::from_millis(250));
    NodeStatistics::with_options(node, options).unwrap()
}

fn request(value: i64) -> BasicTypes_Request {
    BasicTypes_Request { int64_value: value, ..Default::default() }
}

fn response(request: BasicTypes_Request) -> BasicTypes_Response {
    BasicTypes_Response { int64_value: request.int64_value, ..Default::default() }
}

/// All finished windows of a source.
#[derive(Clone)]
struct Windows(test_support::Windows);

impl Windows {
    fn of(watched: watch::Receiver<Option<Arc<WindowStatistics>>>) -> Windows {
        Windows(test_support::collect(watched))
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns the summaries of a metric in all windows in which it is measured.
    fn all(&self, metric: Metric) -> Vec<Summary> {
        let windows = self.0.lock().unwrap();
        windows
            .iter()
            .filter_map(|window| window.get(metric))
            .filter(|summary| summary.sample_count > 0)
            .copied()
            .collect()
    }

    /// Returns the sum of all samples of a metric.
    fn sum(&self, metric: Metric) -> f64 {
        self.all(metric).iter().map(|summary| summary.average * summary.sample_count as f64).sum()
    }

    /// Returns the number of all samples of a metric.
    fn count(&self, metric: Metric) -> u64 {
        self.all(metric).iter().map(|summary| summary.sample_count).sum()
    }

    fn maximum(&self, metric: Metric) -> f64 {
        self.all(metric).iter().map(|summary| summary.maximum).fold(f64::NEG_INFINITY, f64::max)
    }

    fn minimum(&self, metric: Metric) -> f64 {
        self.all(metric).iter().map(|summary| summary.minimum).fold(f64::INFINITY, f64::min)
    }

    /// Waits until that many values were counted in finished windows.
    fn wait_for(&self, metric: Metric, count: f64) {
        wait_for(&format!("{count} {metric}"), || self.sum(metric) >= count);
    }

    /// Asserts that a metric, an age, has grown in each window from that index on by the length of the window.
    #[track_caller]
    fn assert_ages(&self, metric: Metric, from: usize) {
        let windows = self.0.lock().unwrap();
        assert!(windows.len() > from + 1);
        for pair in windows[from..].windows(2) {
            let [before, age] = [&pair[0], &pair[1]].map(|window| window.get(metric).unwrap().average);
            let length = pair[1].length.as_secs_f64() * 1e3;
            assert!((age - before - length).abs() < 0.01, "{before} to {age} ms in a window of {length} ms");
        }
    }

    /// Waits for a number of further windows.
    fn wait_for_more(&self, windows: usize) {
        let before = self.len();
        wait_for("windows", || self.len() >= before + windows);
    }
}
