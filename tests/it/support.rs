// SPDX-License-Identifier: Apache-2.0

//! Shared imports, and helpers for messages and collected windows.

pub use std::{
    future::Future,
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
    NodeStatisticsOptions, SourceKind, SourceName, StatisticsError, StatisticsOptions, StatisticsState,
    StatsExecutor, StatsOptions, StatsSubscription, Summary, Timestamp, WindowStatistics,
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
    context, domain, itself, lines, middleware, nanoseconds, node, on_each, preload, program,
    shares_its_process, wait_for, warnings, windows_of, Process, Program, Reader, Spinning, LIMIT,
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

/// The delay that the tests inject.
pub const DELAY: Duration = Duration::from_millis(500);

/// The finished windows of a source since the call of `collect`.
pub struct Windows(pub test_support::Windows);

impl Windows {
    pub fn collect(watched: watch::Receiver<Option<Arc<WindowStatistics>>>) -> Windows {
        Windows(test_support::collect(watched))
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn all(&self, metric: Metric) -> Vec<Summary> {
        let windows = self.0.lock().unwrap();
        let summaries = windows.iter().filter_map(|window| window.get(metric).copied());
        summaries.filter(|summary| summary.sample_count > 0).collect()
    }

    /// Returns the sum of a metric if it is a count, otherwise its number of samples.
    pub fn total(&self, metric: Metric) -> u64 {
        let summaries = self.all(metric).into_iter();
        if metric.is_count() {
            return summaries.map(|summary| summary.average as u64).sum();
        }
        summaries.map(|summary| summary.sample_count).sum()
    }

    pub fn totals<const N: usize>(&self, metrics: [Metric; N]) -> [u64; N] {
        metrics.map(|metric| self.total(metric))
    }

    pub fn last(&self, metric: Metric) -> f64 {
        self.all(metric).last().unwrap().average
    }

    pub fn least(&self, metric: Metric) -> f64 {
        self.all(metric).iter().map(|summary| summary.minimum).fold(f64::NAN, f64::min)
    }

    pub fn most(&self, metric: Metric) -> f64 {
        self.all(metric).iter().map(|summary| summary.maximum).fold(f64::NAN, f64::max)
    }

    /// Waits until a metric has this total. Then waits for another window, which must not increase the total.
    #[track_caller]
    pub fn wait_for(&self, metric: Metric, total: u64) {
        wait_for(&format!("{total} {metric}"), || self.total(metric) >= total);
        self.wait_for_more(1);
        assert_eq!(self.total(metric), total, "{metric}");
    }

    pub fn wait_for_more(&self, windows: usize) {
        let before = self.len();
        wait_for("windows", || self.len() >= before + windows);
    }

    /// Asserts that a metric has this number of samples, and that all samples are about [`DELAY`].
    #[track_caller]
    pub fn assert_delayed(&self, metric: Metric, count: u64) {
        let (least, most) = (self.least(metric), self.most(metric));
        assert!(least >= 250.0 && most < 5000.0, "{metric}: {least} to {most} ms");
        assert_eq!(self.total(metric), count, "{metric}");
    }
}
