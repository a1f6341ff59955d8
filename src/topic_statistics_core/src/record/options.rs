// SPDX-License-Identifier: Apache-2.0

//! The options of a source that can change while it lives.

use std::time::Duration;

/// Whether a subscription has statistics, with rclcpp's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicStatisticsState {
    /// Statistics are enabled.
    Enable,
    /// Statistics are disabled.
    Disable,
    /// The node decides, by the ROS parameter `topic_statistics.enabled`.
    #[default]
    NodeDefault,
}

/// The options of a source that can change while it lives. The node's options are the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceOptions {
    /// Whether it has statistics.
    pub state: TopicStatisticsState,
    /// The length of its windows.
    pub publish_period: Option<Duration>,
    /// Whether it has distributions.
    pub distributions: Option<bool>,
}

impl From<TopicStatisticsState> for SourceOptions {
    fn from(state: TopicStatisticsState) -> Self {
        Self { state, ..Self::default() }
    }
}
