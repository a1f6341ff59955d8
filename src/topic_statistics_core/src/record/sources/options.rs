// SPDX-License-Identifier: Apache-2.0

//! The options of a source that can change while it lives, and a node's defaults of them.

use std::time::Duration;

/// Whether a source has statistics, with rclcpp's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "TopicStatisticsState")] // rclcpp's
pub enum StatisticsState {
    /// Statistics are enabled.
    Enable,
    /// Statistics are disabled.
    Disable,
    /// The node decides, by the ROS parameter `topic_statistics.enabled`. Of a node itself, `Enable`.
    #[default]
    NodeDefault,
}

impl StatisticsState {
    /// Returns whether statistics are enabled; `of_node`: whether the node's are.
    pub fn is_enabled(self, of_node: bool) -> bool {
        match self {
            Self::Enable => true,
            Self::Disable => false,
            Self::NodeDefault => of_node,
        }
    }
}

/// `Enable` or `Disable`.
impl From<bool> for StatisticsState {
    fn from(enabled: bool) -> Self {
        if enabled {
            Self::Enable
        } else {
            Self::Disable
        }
    }
}

/// What the sources of a node have that leave it to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceDefaults {
    /// Whether they have statistics. Default: true.
    pub enabled: bool,
    /// The length of their windows. Default: 1 s, as in rclcpp.
    pub publish_period: Duration,
    /// Whether they have distributions. Default: false.
    pub distributions: bool,
}

impl Default for SourceDefaults {
    fn default() -> Self {
        Self { enabled: true, publish_period: Duration::from_secs(1), distributions: false }
    }
}

/// The options of a source that can change while it lives. The node's options are the defaults.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SourceOptions {
    /// Whether it has statistics.
    pub state: StatisticsState,
    /// The length of its windows.
    pub publish_period: Option<Duration>,
    /// Whether it has distributions.
    pub distributions: Option<bool>,
}

impl From<StatisticsState> for SourceOptions {
    fn from(state: StatisticsState) -> Self {
        Self { state, ..Self::default() }
    }
}
