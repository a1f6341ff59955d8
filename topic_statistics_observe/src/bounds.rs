// SPDX-License-Identifier: Apache-2.0

//! Bounded tables that anybody on the network can fill: who holds how much of one, and what goes first.
//!
//! A table that is full makes room in this order:
//!
//! 1. entries that have ended, by the length of their windows as it was [observed](believed) here;
//! 2. entries of the sender that holds most, if it holds more than the newcomer's sender:
//!    [`giving_way`](Shares::giving_way). Those that were seen once go first, then the youngest.
//!
//! So one process can fill a table as long as nobody else needs it, and no longer.

use std::{collections::BTreeMap, time::Duration};

/// A process that publishes: the first 12 bytes of its publishers' GIDs.
///
/// In DDS they are the prefix of a participant's GUID, which all publishers of a process share. Other middlewares have
/// other bytes for each publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sender([u8; Self::BYTES]);

impl Sender {
    const BYTES: usize = 12;

    /// Returns the sender of a message by its publisher's GID.
    pub fn new(gid: &[u8]) -> Self {
        let mut prefix = [0; Self::BYTES];
        prefix.iter_mut().zip(gid).for_each(|(byte, of_gid)| *byte = *of_gid);
        Self(prefix)
    }
}

/// The longest window that is believed before it was observed here: the longest one that the alerts support.
pub const UNOBSERVED: Duration = Duration::from_secs(300);

/// Returns the length of a source's windows: as its last one `claims`, but no longer than the source was `observed`,
/// from its first window received here to its last one.
///
/// With `is_full`, a table needs room: then a claim that was not observed counts for nothing.
pub fn believed(claim: Duration, observed: Duration, is_full: bool) -> Duration {
    claim.min(if is_full { observed } else { observed.max(UNOBSERVED) })
}

/// How much of a bounded table each sender holds.
#[derive(Clone, Debug)]
pub struct Shares {
    max: usize,
    used: usize,
    of_senders: BTreeMap<Sender, usize>,
}

impl Shares {
    /// Returns the shares of an empty table with room for `max`.
    pub fn new(max: usize) -> Self {
        Self { max, used: 0, of_senders: BTreeMap::new() }
    }

    /// Returns how much is held.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns how much a sender holds.
    pub fn used_by(&self, sender: Sender) -> usize {
        self.of_senders.get(&sender).copied().unwrap_or_default()
    }

    /// Returns whether there is room.
    pub fn has_room(&self, size: usize) -> bool {
        self.used.saturating_add(size) <= self.max
    }

    /// Adds to what a sender holds. Returns whether there was room.
    pub fn reserve(&mut self, sender: Sender, size: usize) -> bool {
        let has_room = self.has_room(size);
        if has_room {
            self.used += size;
            *self.of_senders.entry(sender).or_default() += size;
        }
        has_room
    }

    /// Takes from what a sender holds.
    pub fn release(&mut self, sender: Sender, size: usize) {
        if let Some(held) = self.of_senders.get_mut(&sender) {
            let released = size.min(*held);
            *held -= released;
            self.used -= released;
            if *held == 0 {
                self.of_senders.remove(&sender);
            }
        }
    }

    /// Returns which sender has to give way, and by how much at least, so that there is room for `size` of `newcomer`.
    /// `None` if there is room, or if nobody would still hold as much as the newcomer.
    pub fn giving_way(&self, newcomer: Sender, size: usize) -> Option<(Sender, usize)> {
        if self.has_room(size) || size > self.max {
            return None;
        }
        let missing = self.used + size - self.max;
        let (most, held) = self.of_senders.iter().max_by_key(|(_, held)| **held)?;
        let is_more = *most != newcomer && *held >= self.used_by(newcomer) + size + missing;
        is_more.then_some((*most, missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_of_a_process_are_one_sender() {
        let gid = |process: u8, publisher: u8| [[process; 12].as_slice(), &[publisher; 12]].concat();
        assert_eq!(Sender::new(&gid(1, 2)), Sender::new(&gid(1, 3)));
        assert_ne!(Sender::new(&gid(1, 2)), Sender::new(&gid(2, 2)));
        assert_eq!(Sender::new(&[]), Sender::default(), "a GID may be short");
    }
}
