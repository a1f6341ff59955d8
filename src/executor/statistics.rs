// SPDX-License-Identifier: Apache-2.0

use std::{fmt, sync::Arc};

use rclrs::Node;
use tokio::sync::watch;
use topic_statistics_core::{
    health::Health,
    record::source::{SourceHandle, WindowedCollector},
    TopicStatisticsState, WindowStatistics,
};

use super::task::{self, Measured};

/// The statistics of a [`MeasuredExecutor`](crate::MeasuredExecutor), which
/// [`NodeStatistics::executor`](crate::NodeStatistics::executor) returns.
///
/// ```
/// # use rclrs::*;
/// # use rclrs_topic_statistics::{MeasuredExecutor, NodeStatistics};
/// # let executor = Context::default_from_env()?.create_executor(MeasuredExecutor::new());
/// # let statistics = NodeStatistics::new(&executor.create_node("robot")?)?;
/// if let Some(window) = statistics.executor().and_then(|executor| executor.latest()) {
///     for wait in window.executor.iter().flat_map(|executor| &executor.waits) {
///         println!("{} waited {} ms for {}", wait.waiting, wait.milliseconds, wait.running);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExecutorStatistics {
    source: SourceHandle,
    // After the source: another node can publish it when this one has ended.
    _claimed: Claimed,
}

impl fmt::Debug for ExecutorStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorStatistics").field("source_name", &self.source_name()).finish_non_exhaustive()
    }
}

/// The right to publish the statistics of an executor.
pub(crate) struct Claimed(Arc<Measured>);

impl Claimed {
    /// Returns what collects its samples.
    pub(crate) fn collector(&self) -> Arc<dyn WindowedCollector> {
        Arc::clone(&self.0.executions) as _
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Claims the statistics of a node's executor; None if it is another kind of executor, or if another `NodeStatistics` has
/// claimed it.
pub(crate) fn claim(node: &Node) -> Option<Claimed> {
    let measured = task::of(node)?;
    measured.claim().then(|| Claimed(measured))
}

impl ExecutorStatistics {
    pub(crate) fn new(source: SourceHandle, claimed: Claimed) -> Self {
        Self { source, _claimed: claimed }
    }

    /// Returns the `measurement_source_name` of the executor's messages on `/statistics`.
    pub fn source_name(&self) -> &str {
        &self.source.name
    }

    /// Returns the last finished window; None before the first one. Its
    /// [`executor`](WindowStatistics::executor) has the threads, the longest callback and the waits.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.source.latest()
    }

    /// Returns a receiver of its health; see
    /// [`MeasuredSubscriptionState::health`](crate::MeasuredSubscriptionState::health).
    pub fn health(&self) -> watch::Receiver<Health> {
        self.source.health()
    }

    /// Returns a receiver of finished windows; see
    /// [`MeasuredSubscriptionState::watch`](crate::MeasuredSubscriptionState::watch).
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.source.watch()
    }

    /// Enables or disables the statistics, or leaves that to the node; see
    /// [`MeasuredSubscriptionState::set_state`](crate::MeasuredSubscriptionState::set_state). Disabled ones cost a
    /// callback one atomic load.
    pub fn set_state(&self, state: TopicStatisticsState) {
        self.source.set_state(state);
    }

    /// Returns whether the statistics are enabled.
    pub fn is_enabled(&self) -> bool {
        self.source.collector.is_enabled()
    }
}
