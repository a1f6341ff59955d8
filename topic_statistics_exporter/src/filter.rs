// SPDX-License-Identifier: Apache-2.0

//! The nodes whose statistics are exported.

use topic_statistics_views::pattern::Pattern;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_included_by_one_pattern_and_excluded_by_one() {
        let filter = |include: &[&str], exclude: &[&str]| {
            let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
            NodeFilter::new(patterns(include), patterns(exclude))
        };
        let all = ["/r1/camera", "/r1/arm/joint", "/r2/camera", "camera", "spot-1"];
        let included = |filter: NodeFilter| all.map(|node| filter.includes(node));
        assert_eq!(included(filter(&[], &[])), [true; 5]);
        assert_eq!(included(filter(&["/r1/**"], &[])), [true, true, false, false, false]);
        assert_eq!(included(filter(&["/r1/**", "camera"], &["/r1/*"])), [false, true, false, true, false]);
        assert_eq!(included(filter(&[], &["/**/camera"])), [false, true, false, false, true]);
    }
}
