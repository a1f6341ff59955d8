// SPDX-License-Identifier: Apache-2.0

//! The sender of an entry of the state, and the order in which entries are removed to make room.

use std::{cmp::Reverse, time::Instant};

use topic_statistics_observe::bounds::Sender;

/// The sender of an entry of the state, and the times when the entry was received.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// The sender that added the entry.
    pub sender: Sender,
    /// When the entry was first received.
    first: Instant,
    /// When the entry was last received.
    pub last: Instant,
}

impl Receipt {
    pub fn new(sender: Sender, now: Instant) -> Self {
        Self { sender, first: now, last: now }
    }

    /// Returns whether the entry was received only once.
    pub fn is_seen_once(&self) -> bool {
        self.first == self.last
    }

    /// Returns a sort key for the order in which entries are removed to make room. Entries that were received only once
    /// are removed first. Among the others, and among those received once, the youngest entry is removed first.
    pub fn rank(&self) -> (bool, Reverse<Instant>) {
        (!self.is_seen_once(), Reverse(self.first))
    }
}
