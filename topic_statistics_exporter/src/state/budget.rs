// SPDX-License-Identifier: Apache-2.0

//! The limits on the number of time series, and the order in which entries are removed to make room.

use std::{cmp::Reverse, collections::HashMap, time::Instant};

use topic_statistics_observe::bounds::{Sender, Shares};

/// The number of time series that each sender has reserved. One limit applies to all nodes together, and another limit
/// applies to each node.
#[derive(Clone, Debug)]
pub struct Budget {
    all: Shares,
    of_nodes: HashMap<Box<str>, Shares>,
    max_of_node: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    Duplicate,
    /// The samples span too many orders of magnitude.
    TooWide,
    BeyondMaxSeries,
    BeyondMaxOfNode,
}

impl Budget {
    pub fn new(max: usize, max_of_node: usize) -> Self {
        Self { all: Shares::new(max), of_nodes: HashMap::new(), max_of_node }
    }

    pub fn used(&self) -> usize {
        self.all.used()
    }

    pub fn shares(&self) -> &Shares {
        &self.all
    }

    /// Reserves time series of a node. Returns an error if a limit would be exceeded.
    pub fn reserve(&mut self, node: &str, sender: Sender, series: usize) -> Result<(), NotAdded> {
        if !self.all.has_room(series) {
            return Err(NotAdded::BeyondMaxSeries);
        }
        if series <= self.max_of_node && !self.of_nodes.contains_key(node) {
            self.of_nodes.insert(node.into(), Shares::new(self.max_of_node));
        }
        if !self.of_nodes.get_mut(node).is_some_and(|of_node| of_node.reserve(sender, series)) {
            return Err(NotAdded::BeyondMaxOfNode);
        }
        self.all.reserve(sender, series);
        Ok(())
    }

    pub fn release(&mut self, node: &str, sender: Sender, series: usize) {
        self.all.release(sender, series);
        if let Some(of_node) = self.of_nodes.get_mut(node) {
            of_node.release(sender, series);
            if of_node.used() == 0 {
                self.of_nodes.remove(node);
            }
        }
    }

    /// Returns the sender whose time series have to be removed to make room for `series` time series of `newcomer`. If
    /// `node` is given, only the senders' time series of this node are compared.
    pub fn giving_way(&self, newcomer: Sender, series: usize, node: Option<&str>) -> Option<GivingWay> {
        let shares = node.map_or(Some(&self.all), |node| self.of_nodes.get(node))?;
        let (sender, missing) = shares.giving_way(newcomer, series)?;
        Some(GivingWay { sender, missing, excess: shares.used_by(sender) - shares.used_by(newcomer) })
    }
}

/// A sender whose time series have to be removed to make room for the time series of another sender (the newcomer).
#[derive(Clone, Copy, Debug)]
pub struct GivingWay {
    pub sender: Sender,
    /// The least number of time series to remove.
    pub missing: usize,
    /// How many more time series this sender has than the newcomer.
    pub excess: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    pub sender: Sender,
    first: Instant,
    pub last: Instant,
}

impl Receipt {
    pub fn new(sender: Sender, now: Instant) -> Self {
        Self { sender, first: now, last: now }
    }

    pub fn is_seen_once(&self) -> bool {
        self.first == self.last
    }

    /// Returns a sort key for the order in which entries are removed to make room. Entries that were received only once
    /// come first, and then the other entries. In both groups, the youngest entry comes first.
    pub fn rank(&self) -> (bool, Reverse<Instant>) {
        (!self.is_seen_once(), Reverse(self.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_with_time_series_take_memory() {
        let (mut budget, sender) = (Budget::new(10, 9), Sender::default());
        for number in 0..50 {
            let [node, large] = ["node", "large"].map(|name| format!("/{name}_{number}"));
            assert_eq!(budget.reserve(&large, sender, 10), Err(NotAdded::BeyondMaxOfNode));
            assert_eq!(budget.reserve(&node, sender, 9), Ok(()));
            budget.release(&node, sender, 9);
        }
        assert!(budget.of_nodes.is_empty(), "{:?}", budget.of_nodes);
    }
}
