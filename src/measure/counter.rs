// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use topic_statistics_core::record::{code::Count, source::SourceHandle};

use super::handle::{stats_handle, SourceStatistics};

/// A named counter, which measures how often something happens, as [`Metric::Frequency`](crate::Metric::Frequency).
///
/// Create a counter using [`NodeStatistics::create_counter`](crate::NodeStatistics::create_counter). A counter is a
/// handle that can be cloned; dropping the last clone ends the counter's statistics. Each call of a counting method
/// costs one atomic operation.
///
/// ```
/// # use rclrs::*;
/// # use rclrs_topic_statistics::NodeStatistics;
/// # let executor = Context::default_from_env()?.create_basic_executor();
/// # let node = executor.create_node("bridge")?;
/// # let statistics = NodeStatistics::new(&node)?;
/// let frames = statistics.create_counter("frames"); // /bridge:frames
/// std::thread::spawn({
///     let frames = frames.clone();
///     move || frames.increment()
/// });
/// frames.add(3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Counter(pub(crate) Arc<CounterState>);

pub(crate) struct CounterState {
    statistics: SourceStatistics,
    count: Count,
}

stats_handle!(Counter, 0);

impl Counter {
    pub(crate) fn new(source: SourceHandle, count: Count) -> Self {
        Self(Arc::new(CounterState { statistics: SourceStatistics(source), count }))
    }

    /// Adds 1.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.count.add(count);
    }
}
