// SPDX-License-Identifier: Apache-2.0

//! Shared imports, and helpers for messages and collected windows.

pub use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver},
        Arc, Mutex,
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

pub use rclrs::*;
pub use rclrs_topic_statistics::{
    health::{Cause, Expectations, Level},
    watch, AgeSource, Distribution, FirstPeriod, IntoStatsOptions, Metric, NodeStatistics,
    NodeStatisticsOptions, SourceName, StatisticsError, StatisticsOptions, StatisticsState, StatsOptions,
    StatsSubscription, Timestamp, WindowStatistics,
};
pub use ros_env::{
    rcl_interfaces::msg::Log,
    sensor_msgs::msg::Imu,
    statistics_msgs::msg::MetricsMessage,
    std_msgs::msg::{Int32, String as Text},
};
use rosidl_runtime_rs::Message;
pub use serde_json::{json, Value};
pub use test_support::{
    collect, context, domain, itself, lines, middleware, nanoseconds, node, on_each, preload, program,
    shares_its_process, wait_for, warnings, Process, Program, Reader, Spinning, Windows, LIMIT,
};

pub fn every(milliseconds: u64) -> StatisticsOptions {
    StatisticsOptions::new().publish_period(Duration::from_millis(milliseconds))
}

/// Collects the messages of a topic from now on.
pub struct Received<T: Message>(Arc<Mutex<Vec<T>>>, #[allow(dead_code)] Subscription<T>);

impl<T: Message> Received<T> {
    pub fn on<'a>(node: &Node, options: impl Into<SubscriptionOptions<'a>>) -> Self {
        let all = Arc::new(Mutex::new(vec![]));
        let to = Arc::clone(&all);
        let store = move |message: T| to.lock().unwrap().push(message);
        Self(all, node.create_subscription(options, store).unwrap())
    }

    pub fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    pub fn has(&self, is_it: impl FnMut(&T) -> bool) -> bool {
        self.0.lock().unwrap().iter().any(is_it)
    }
}

pub fn imu(age: Duration) -> Imu {
    let stamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() - age;
    let mut imu = Imu::default();
    imu.header.stamp.sec = stamp.as_secs() as i32;
    imu.header.stamp.nanosec = stamp.subsec_nanos();
    imu
}

pub fn wait_for_subscriptions<T: Message>(publisher: &PublisherState<T>, count: usize) {
    wait_for("subscriptions", || publisher.get_subscription_count().unwrap() == count);
}

/// Returns the number of samples in all windows.
pub fn samples(windows: &Windows, metric: Metric) -> u64 {
    windows.lock().unwrap().iter().map(|window| window.get(metric).unwrap().sample_count).sum()
}

pub fn largest(windows: &Windows, metric: Metric) -> f64 {
    let windows = windows.lock().unwrap();
    windows.iter().map(|window| window.get(metric).unwrap().maximum).fold(f64::NAN, f64::max)
}

pub fn warnings_of(text: &str) -> usize {
    warnings::so_far().iter().filter(|warning| warning.contains(text)).count()
}

pub fn counting<T>(count: &Arc<AtomicU64>) -> impl Fn(T) + Send + Sync + 'static {
    let count = Arc::clone(count);
    move |_: T| {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

pub fn measured(name: &str, options: impl Into<NodeStatisticsOptions>) -> (Executor, Node, NodeStatistics) {
    let (executor, node) = node(name, &[]);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    (executor, node, statistics)
}

pub fn subscribe<'a, T: Message>(
    statistics: &NodeStatistics,
    options: impl StatsOptions<SubscriptionOptions<'a>>,
) -> StatsSubscription<T> {
    statistics.create_subscription(options, |_: T| ()).unwrap()
}
