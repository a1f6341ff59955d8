// SPDX-License-Identifier: Apache-2.0

//! The nodes whose statistics are exported.

use topic_statistics_observe::pattern::Pattern;

/// Patterns of nodes. Without any, all nodes are included.
#[derive(Clone, Debug, Default)]
pub struct NodeFilter {
    /// Empty: all.
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl NodeFilter {
    /// Includes nodes with a name of `include`, or all if that is empty, but no node with a name of `exclude`.
    pub fn new(include: Vec<Pattern>, exclude: Vec<Pattern>) -> Self {
        Self { include, exclude }
    }

    /// Returns whether a node is included. rclcpp's names have no slash, and match as if they had one.
    pub fn includes(&self, node: &str) -> bool {
        let is_one_of = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.is_match(node));
        (self.include.is_empty() || is_one_of(&self.include)) && !is_one_of(&self.exclude)
    }
}
