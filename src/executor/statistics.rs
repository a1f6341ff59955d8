// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use rclrs::Node;
use topic_statistics_core::record::source::{SourceHandle, WindowedCollector};

use super::task::{self, Measured};
use crate::measure::handle::source_handle;

/// The statistics of a [`MeasuredExecutor`](crate::MeasuredExecutor), which
/// [`NodeStatistics::executor`](crate::NodeStatistics::executor) returns. Disabled ones cost a callback one atomic
/// load.
///
/// The [`executor`](crate::WindowStatistics::executor) of a window has the threads, the longest callback and the waits.
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

source_handle!(ExecutorStatistics);

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

/// Claims the statistics of a node's executor; None if it is another kind of executor, or if another `NodeStatistics`
/// has claimed it.
pub(crate) fn claim(node: &Node) -> Option<Claimed> {
    let measured = task::of(node)?;
    measured.claim().then(|| Claimed(measured))
}

impl ExecutorStatistics {
    pub(crate) fn new(source: SourceHandle, claimed: Claimed) -> Self {
        Self { source, _claimed: claimed }
    }
}
