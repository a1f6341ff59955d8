// SPDX-License-Identifier: Apache-2.0

//! Limits for tables that any process on the network can fill: how much of a table each sender holds, and which entries
//! are removed first.
//!
//! A full table removes entries in this order:
//!
//! 1. entries whose source has ended: no window was received for a multiple of its [window length](believed);
//! 2. entries of the sender that holds the largest part of the table, if this sender holds more than the sender of the
//!    new entry: [`giving_way`](Shares::giving_way). Of this sender, entries that were seen only once are removed
//!    first, then the youngest entries.
//!
//! So one process can fill a table only as long as no other process needs room in the table.

use std::{collections::BTreeMap, time::Duration};

/// A publishing process, identified by the first 12 bytes of its publishers' GIDs.
///
/// In DDS these bytes are the prefix of the participant's GUID, which all publishers of a process share. In other
/// middlewares these bytes differ for each publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sender([u8; Self::BYTES]);

impl Sender {
    const BYTES: usize = 12;

    pub fn new(gid: &[u8]) -> Self {
        let mut prefix = [0; Self::BYTES];
        prefix.iter_mut().zip(gid).for_each(|(byte, of_gid)| *byte = *of_gid);
        Self(prefix)
    }
}

/// The longest window length that is believed if a source has been observed for a shorter time than this. The alerts in
/// `grafana/` support windows up to this length.
pub const UNOBSERVED: Duration = Duration::from_secs(300);

/// Returns the window length that a program assumes for a source. This is the length of the source's last window
/// (`claim`), but not more than a limit. The limit is the longer of two times: [`UNOBSERVED`], and the time between the
/// first and the last window received from the source (`observed`).
///
/// If the table of senders `is_full`, the limit is the `observed` duration.
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
    pub fn new(max: usize) -> Self {
        Self { max, used: 0, of_senders: BTreeMap::new() }
    }

    pub fn used(&self) -> usize {
        self.used
    }

    pub fn used_by(&self, sender: Sender) -> usize {
        self.of_senders.get(&sender).copied().unwrap_or_default()
    }

    pub fn has_room(&self, size: usize) -> bool {
        self.used.saturating_add(size) <= self.max
    }

    pub fn reserve(&mut self, sender: Sender, size: usize) -> bool {
        let has_room = self.has_room(size);
        if has_room {
            self.used += size;
            *self.of_senders.entry(sender).or_default() += size;
        }
        has_room
    }

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

    /// Returns the sender whose entries must be removed, and the least size to remove, so that an entry of `newcomer`
    /// with this size fits in the table. `None` if the entry fits already, if `size` is more than the whole table, or
    /// if the largest other sender would hold less than `newcomer` after the removal.
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
        assert_eq!(Sender::new(&[]), Sender::default(), "a GID may have fewer than 12 bytes");
    }

    #[test]
    fn a_sender_that_holds_nothing_takes_no_memory() {
        let mut shares = Shares::new(10);
        for sender in (0..50).map(|process| Sender::new(&[process; 12])) {
            assert!(shares.reserve(sender, 10) && !shares.reserve(Sender::default(), 1));
            shares.release(sender, 10);
        }
        assert!(shares.of_senders.is_empty(), "{shares:?}");
    }
}
