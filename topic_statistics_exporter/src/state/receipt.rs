// SPDX-License-Identifier: Apache-2.0

//! What a sender holds of the state, and which of it goes first.

use std::{cmp::Reverse, time::Instant};

use topic_statistics_observe::bounds::Sender;

/// Who added an entry of the state, and when it was received.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// Who added it.
    pub sender: Sender,
    /// When it was received first.
    first: Instant,
    /// When it was received last.
    pub last: Instant,
}

impl Receipt {
    pub fn new(sender: Sender, now: Instant) -> Self {
        Self { sender, first: now, last: now }
    }

    /// Returns whether it was received once only.
    pub fn is_seen_once(&self) -> bool {
        self.first == self.last
    }

    /// Returns its place in the order in which entries make room: those seen once first, then the youngest.
    pub fn rank(&self) -> (bool, Reverse<Instant>) {
        (!self.is_seen_once(), Reverse(self.first))
    }
}
