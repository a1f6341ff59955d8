// SPDX-License-Identifier: Apache-2.0

//! Services, clients, timers and actions, and helpers for tests of measured sources.

mod actions;
mod services;
mod timers;

pub(crate) use std::{future::Future, sync::Arc, time::Duration};

pub(crate) use rclrs::*;
pub(crate) use rclrs_topic_statistics::{
    watch, FirstPeriod, IntoStatsOptions, Metric, NodeStatistics, SourceKind, StatisticsOptions,
    StatisticsState, StatsExecutor, Summary, WindowStatistics,
};
pub(crate) use test_support::{context, domain, node, wait_for, windows_of, Reader, Spinning, LIMIT};

/// The delay that the tests inject.
const DELAY: Duration = Duration::from_millis(500);

/// Returns options with windows of 100 ms, in which every period has a sample.
pub(crate) fn options() -> StatisticsOptions {
    let options = StatisticsOptions::new().publish_period(Duration::from_millis(100));
    options.first_period(FirstPeriod::CarriedOver)
}

pub(crate) fn statistics(node: &Node) -> NodeStatistics {
    NodeStatistics::with_options(node, options()).unwrap()
}

/// Creates an executor with one thread. With several threads, rclrs 0.8 loses a response that arrives before its call
/// returns.
fn single_threaded() -> Executor {
    context(domain(), &[]).create_executor(StatsExecutor::single_threaded())
}

pub(crate) fn run<T: Send + 'static>(
    executor: &mut Executor,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let (sender, output) = std::sync::mpsc::channel();
    let complete = executor.commands().run(async move { sender.send(future.await).unwrap() });
    let errors = executor.spin(SpinOptions::default().until_promise_resolved(complete).timeout(LIMIT));
    assert!(errors.is_empty(), "{errors:?}");
    output.recv().unwrap()
}

/// Waits until rclpy has read all these metrics of a source with their units.
pub(crate) fn read_all(reader: &mut Reader, source: &str, metrics: &[Metric]) {
    reader.read_until("all metrics", |read| {
        metrics
            .iter()
            .all(|metric| windows_of(read, source, metric.name()).any(|window| window.unit == metric.unit()))
    });
}

pub(crate) struct Windows(test_support::Windows);

impl Windows {
    pub(crate) fn collect(watched: watch::Receiver<Option<Arc<WindowStatistics>>>) -> Windows {
        Windows(test_support::collect(watched))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn all(&self, metric: Metric) -> Vec<Summary> {
        let windows = self.0.lock().unwrap();
        let summaries = windows.iter().filter_map(|window| window.get(metric).copied());
        summaries.filter(|summary| summary.sample_count > 0).collect()
    }

    /// Returns the sum of a metric if it is a count, otherwise its number of samples.
    pub(crate) fn total(&self, metric: Metric) -> u64 {
        let summaries = self.all(metric).into_iter();
        if metric.is_count() {
            return summaries.map(|summary| summary.average as u64).sum();
        }
        summaries.map(|summary| summary.sample_count).sum()
    }

    pub(crate) fn totals<const N: usize>(&self, metrics: [Metric; N]) -> [u64; N] {
        metrics.map(|metric| self.total(metric))
    }

    pub(crate) fn last(&self, metric: Metric) -> f64 {
        self.all(metric).last().unwrap().average
    }

    pub(crate) fn least(&self, metric: Metric) -> f64 {
        self.all(metric).iter().map(|summary| summary.minimum).fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn most(&self, metric: Metric) -> f64 {
        self.all(metric).iter().map(|summary| summary.maximum).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Waits for a total and then for another window, which must not increase it.
    #[track_caller]
    pub(crate) fn wait_for(&self, metric: Metric, total: u64) {
        wait_for(&format!("{total} {metric}"), || self.total(metric) >= total);
        self.wait_for_more(1);
        assert_eq!(self.total(metric), total, "{metric}");
    }

    pub(crate) fn wait_for_more(&self, windows: usize) {
        let before = self.len();
        wait_for("windows", || self.len() >= before + windows);
    }

    /// Asserts the number of samples of a metric, and that all samples are about [`DELAY`].
    #[track_caller]
    fn assert_delayed(&self, metric: Metric, count: u64) {
        let (least, most) = (self.least(metric), self.most(metric));
        assert!(least >= 250.0 && most < 5000.0, "{metric}: {least} to {most} ms");
        assert_eq!(self.total(metric), count, "{metric}");
    }
}
