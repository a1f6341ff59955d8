// SPDX-License-Identifier: Apache-2.0

use std::sync::{atomic::Ordering, Arc};

use rclrs::Node;
use topic_statistics_core::record::source::WindowedCollector;

use super::task::{self, Measured};
use crate::measure::handle::SourceStatistics;

/// The statistics of an executor, and the right to publish them.
pub(crate) struct ExecutorStatistics {
    pub(crate) statistics: SourceStatistics,
    // This field is dropped last. After that, another `NodeStatistics` can publish the executor's statistics.
    pub(crate) _claimed: Claimed,
}

/// The right to publish the statistics of an executor. Only one `NodeStatistics` has this right.
pub(crate) struct Claimed(Arc<Measured>);

impl Claimed {
    pub(crate) fn collector(&self) -> Arc<dyn WindowedCollector> {
        Arc::clone(&self.0.executions) as _
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.is_claimed.store(false, Ordering::Release);
    }
}

/// Claims the statistics of a node's executor. Returns `None` if the executor is not a `StatsExecutor`, or if another
/// `NodeStatistics` has claimed the executor's statistics.
pub(crate) fn claim(node: &Node) -> Option<Claimed> {
    let measured = task::find_measured(node)?;
    let was_claimed = measured.is_claimed.swap(true, Ordering::AcqRel);
    (!was_claimed).then(|| Claimed(measured))
}
