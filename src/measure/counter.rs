// SPDX-License-Identifier: Apache-2.0

use std::{fmt, sync::Arc};

use tokio::sync::watch;
use topic_statistics_core::{
    health::Health,
    record::{count::Count, source::SourceHandle},
    TopicStatisticsState, WindowStatistics,
};

/// A named counter: how often something happens, as [`Metric::Frequency`](crate::Metric::Frequency).
///
/// Create one using [`NodeStatistics::create_counter`](crate::NodeStatistics::create_counter). It is a handle that can
/// be cloned; dropping the last clone ends its statistics. Counting is one atomic operation.
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
    source: SourceHandle,
    count: Count,
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("source_name", &self.source_name()).finish_non_exhaustive()
    }
}

impl Counter {
    pub(crate) fn new(source: SourceHandle, count: Count) -> Self {
        Self(Arc::new(CounterState { source, count }))
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

    /// Returns the `measurement_source_name` of this counter's messages on `/statistics`.
    pub fn source_name(&self) -> &str {
        &self.0.source.name
    }

    /// Returns the last finished window; None before the first one.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.0.source.latest()
    }

    /// Returns a receiver of its health; see
    /// [`MeasuredSubscriptionState::health`](crate::MeasuredSubscriptionState::health).
    pub fn health(&self) -> watch::Receiver<Health> {
        self.0.source.health()
    }

    /// Returns a receiver of finished windows; see
    /// [`MeasuredSubscriptionState::watch`](crate::MeasuredSubscriptionState::watch).
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.0.source.watch()
    }

    /// Enables or disables the statistics, or leaves that to the node; see
    /// [`MeasuredSubscriptionState::set_state`](crate::MeasuredSubscriptionState::set_state).
    pub fn set_state(&self, state: TopicStatisticsState) {
        self.0.source.set_state(state);
    }

    /// Returns whether the statistics are enabled.
    pub fn is_enabled(&self) -> bool {
        self.0.source.collector.is_enabled()
    }
}
