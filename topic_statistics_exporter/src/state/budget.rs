// SPDX-License-Identifier: Apache-2.0

//! The bounds of the time series, and why something was not added.

use std::collections::HashMap;

use topic_statistics_observe::bounds::{Sender, Shares};

/// How many time series there are, at most: in all, and of a node. Each has a sender.
#[derive(Clone, Debug)]
pub struct Budget {
    all: Shares,
    of_nodes: HashMap<Box<str>, Shares>,
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
        Self { all: Shares::new(max), of_nodes: HashMap::new(), max_of_node }
    }

    /// Returns how many time series are reserved.
    pub fn used(&self) -> usize {
        self.all.used()
    }

    /// Returns how many time series each sender has.
    pub fn shares(&self) -> &Shares {
        &self.all
    }

    /// Reserves time series of a node, if enough are left.
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

    /// Returns the sender that has to give way so that there is room for time series of another one, by how many at
    /// least, and how many more it has than the other one. `node`: by time series of this node.
    pub fn giving_way(&self, newcomer: Sender, series: usize, node: Option<&str>) -> Option<GivingWay> {
        let shares = node.map_or(Some(&self.all), |node| self.of_nodes.get(node))?;
        let (sender, missing) = shares.giving_way(newcomer, series)?;
        Some(GivingWay { sender, missing, excess: shares.used_by(sender) - shares.used_by(newcomer) })
    }
}

/// A sender that has to give way.
#[derive(Clone, Copy, Debug)]
pub struct GivingWay {
    pub sender: Sender,
    /// How many time series have to go, at least.
    pub missing: usize,
    /// How many more it has than the newcomer.
    pub excess: usize,
}
