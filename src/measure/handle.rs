// SPDX-License-Identifier: Apache-2.0

//! The statistics of a source, which the handles of all sources return.

use std::{fmt, sync::Arc};

use tokio::sync::watch;
use topic_statistics_core::{
    health::Health, record::source::SourceHandle, StatisticsState, Totals, WindowStatistics,
};

/// The statistics of one source. A source is a subscription, a publisher, a service, a client, a timer, an action
/// server, an action client, the executor, a stopwatch or a counter.
///
/// The method `statistics` of each handle returns this value.
///
/// ```
/// # use rclrs::*;
/// # use rclrs_topic_statistics::{health::{Expectations, Level}, *};
/// # use ros_env::sensor_msgs::msg::Imu;
/// # let executor = Context::default_from_env()?.create_basic_executor();
/// # let statistics = NodeStatistics::new(&executor.create_node("imu_listener")?)?;
/// let expected = Expectations::new().error_unless("rate>=90 age<50ms".parse()?);
/// let options = StatisticsOptions::new().expect(expected);
/// let imu = statistics.create_subscription("imu".statistics(options), |_: Imu| {})?;
/// if imu.statistics().health().borrow().level == Level::Error { /* slow down */ }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SourceStatistics(pub(crate) SourceHandle);

impl SourceStatistics {
    /// Returns the `measurement_source_name` of the source's messages on `/statistics`.
    pub fn source_name(&self) -> &str {
        &self.0.name
    }

    /// Returns the last finished window; `None` before the first window has ended.
    ///
    /// A window is available here as soon as the window ends, which is before the window is published.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.0.latest()
    }

    /// Returns a receiver of finished windows, so that a node can act on its own statistics.
    ///
    /// A slow receiver gets only the last window, and misses earlier windows. The channel closes when the source's
    /// handle is dropped.
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.0.watch()
    }

    /// Returns a receiver of the source's health: whether the source meets its
    /// [expectations](crate::StatisticsOptions::expect).
    ///
    /// The first value is the health after the last window. After the first value, the receiver gets each change of the
    /// level, and each change of the cause while the level is not OK. Before the first window, and without
    /// expectations, the health is [`Health::default`]. The channel closes when the source's handle is dropped.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.0.health()
    }

    /// Returns the numbers of messages received and lost since a subscription was created; `None` if the source is not
    /// a subscription.
    ///
    /// Losses are known only if [`Metric::PublicationSeqGap`](crate::Metric::PublicationSeqGap) is measured.
    pub fn totals(&self) -> Option<Totals> {
        self.0.collector.totals()
    }

    /// Enables or disables the statistics. With [`StatisticsState::NodeDefault`], the state of the node decides.
    ///
    /// Disabled statistics measure and publish nothing; the current window is discarded. When the statistics are
    /// enabled again, a new window starts.
    pub fn set_state(&self, state: StatisticsState) {
        self.0.set_state(state);
    }

    /// Returns whether the statistics are enabled.
    pub fn is_enabled(&self) -> bool {
        self.0.collector.is_enabled()
    }
}

impl fmt::Debug for SourceStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceStatistics")
            .field("source_name", &self.source_name())
            .field("is_enabled", &self.is_enabled())
            .finish_non_exhaustive()
    }
}

/// Implements `statistics` and `Debug` for a handle. `$field` are the nested fields of the handle that lead to the
/// struct with the field `statistics`.
macro_rules! stats_handle {
    ($name:ident $(<$($parameter:ident $(: $bound:path)?),+>)? $(, $field:tt)*) => {
        impl$(<$($parameter $(: $bound)?),+>)? $name$(<$($parameter),+>)? {
            /// Returns the statistics of this handle's source.
            pub fn statistics(&self) -> &crate::SourceStatistics {
                &self$(.$field)*.statistics
            }
        }

        impl$(<$($parameter $(: $bound)?),+>)? std::fmt::Debug for $name$(<$($parameter),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("statistics", self.statistics()).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use stats_handle;
