// SPDX-License-Identifier: Apache-2.0

//! The filter that selects the nodes whose statistics are exported.

use topic_statistics_observe::pattern::Pattern;

/// Patterns that include or exclude nodes by name. Without patterns, all nodes are included.
#[derive(Clone, Debug, Default)]
pub struct NodeFilter {
    /// The patterns of the nodes to include. Without these patterns, all nodes are included.
    pub include: Vec<Pattern>,
    pub exclude: Vec<Pattern>,
}

impl NodeFilter {
    /// Returns whether a node is included. A node name from rclcpp has no leading slash. Such a name is compared as if
    /// it had a leading slash.
    pub fn includes(&self, node: &str) -> bool {
        let is_one_of = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.is_match(node));
        (self.include.is_empty() || is_one_of(&self.include)) && !is_one_of(&self.exclude)
    }
}
