// SPDX-License-Identifier: Apache-2.0

//! The bounds of the time series, and why something was not added.

use std::collections::HashMap;

/// How many time series there are, at most: in all, and of a node.
#[derive(Clone, Debug)]
pub struct Budget {
    used: usize,
    max: usize,
    of_nodes: HashMap<Box<str>, usize>,
    max_of_node: usize,
}

/// Why something valid was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// The window was counted already.
    Duplicate,
    /// The samples span too many orders of magnitude.
    TooWide,
    /// There are as many time series as there may be.
    BeyondMaxSeries,
    /// The node has as many time series as a node may have.
    BeyondMaxOfNode,
}

impl Budget {
    pub fn new(max: usize, max_of_node: usize) -> Self {
        Self { used: 0, max, of_nodes: HashMap::new(), max_of_node }
    }

    /// Returns how many time series are reserved.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns whether there is room.
    pub fn has_room(&self, series: usize) -> bool {
        self.used.saturating_add(series) <= self.max
    }

    /// Reserves time series of a node, if enough are left.
    pub fn reserve(&mut self, node: &str, series: usize) -> Result<(), NotAdded> {
        if !self.has_room(series) {
            return Err(NotAdded::BeyondMaxSeries);
        }
        let of_node = self.of_nodes.get(node).map_or(series, |of_node| of_node.saturating_add(series));
        if of_node > self.max_of_node {
            return Err(NotAdded::BeyondMaxOfNode);
        }
        self.of_nodes.insert(node.into(), of_node);
        self.used += series;
        Ok(())
    }

    pub fn release(&mut self, node: &str, series: usize) {
        self.used = self.used.saturating_sub(series);
        if let Some(of_node) = self.of_nodes.get_mut(node) {
            *of_node = of_node.saturating_sub(series);
            if *of_node == 0 {
                self.of_nodes.remove(node);
            }
        }
    }
}
