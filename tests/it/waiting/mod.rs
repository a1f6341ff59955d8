// SPDX-License-Identifier: Apache-2.0

//! Services, clients, timers and actions, and helpers for tests of measured sources.

mod actions;
mod services;
mod timers;

pub(crate) use crate::support::*;

/// Returns options with windows of 100 ms, in which the first message of a window also has a period.
pub(crate) fn options() -> StatisticsOptions {
    let options = StatisticsOptions::new().publish_period(Duration::from_millis(100));
    options.first_period(FirstPeriod::CarriedOver)
}

pub(crate) fn statistics(node: &Node) -> NodeStatistics {
    NodeStatistics::with_options(node, options()).unwrap()
}

/// Creates an executor with one thread. With several threads, rclrs 0.8 loses a response that arrives before the call
/// of `call` returns.
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

/// Waits until rclpy has read windows of all these metrics of a source, with the right units.
pub(crate) fn read_all(reader: &mut Reader, source: &str, metrics: &[Metric]) {
    reader.read_until("all metrics", |read| {
        metrics
            .iter()
            .all(|metric| windows_of(read, source, metric.name()).any(|window| window.unit == metric.unit()))
    });
}
