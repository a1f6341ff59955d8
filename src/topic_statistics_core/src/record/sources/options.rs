// SPDX-License-Identifier: Apache-2.0

//! The options of a source that can change during its lifetime, and the node's defaults for these options.

use std::time::Duration;

/// Whether a source has statistics. The values are those of rclcpp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "TopicStatisticsState")] // the name in rclcpp
pub enum StatisticsState {
    /// Statistics are enabled.
    Enable,
    /// Statistics are disabled.
    Disable,
    /// The node decides, by the ROS parameter `topic_statistics.enabled`. For the node itself, this value means
    /// `Enable`.
    #[default]
    NodeDefault,
}

impl StatisticsState {
    /// Returns whether statistics are enabled. `of_node` is whether the node's statistics are enabled.
    pub fn is_enabled(self, of_node: bool) -> bool {
        match self {
            Self::Enable => true,
            Self::Disable => false,
            Self::NodeDefault => of_node,
        }
    }
}

/// Converts true to `Enable` and false to `Disable`.
impl From<bool> for StatisticsState {
    fn from(enabled: bool) -> Self {
        if enabled {
            Self::Enable
        } else {
            Self::Disable
        }
    }
}

/// The default options of a node's sources. A source that does not set an option uses the node's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceDefaults {
    /// Whether the sources have statistics. Default: true.
    pub enabled: bool,
    /// The length of the sources' windows. Default: 1 s, as in rclcpp.
    pub publish_period: Duration,
    /// Whether the sources have distributions. Default: false.
    pub distributions: bool,
}

impl Default for SourceDefaults {
    fn default() -> Self {
        Self { enabled: true, publish_period: Duration::from_secs(1), distributions: false }
    }
}

/// The options of a source that can change during its lifetime. If an option is not set, the node's default is used.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SourceOptions {
    /// Whether the source has statistics.
    pub state: StatisticsState,
    /// The length of the source's windows; `None` means the node's default.
    pub publish_period: Option<Duration>,
    /// Whether the source has distributions; `None` means the node's default.
    pub distributions: Option<bool>,
}

impl From<StatisticsState> for SourceOptions {
    fn from(state: StatisticsState) -> Self {
        Self { state, ..Self::default() }
    }
}
