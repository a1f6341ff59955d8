// SPDX-License-Identifier: Apache-2.0

//! The history of transient local publishers: messages that were published before the subscription matched these
//! publishers.

use std::{collections::VecDeque, time::Duration};

use crate::record::{clocks::clock::duration, topics::transport::Gid};

/// Recognizes the history that transient local publishers deliver all at once when the subscription matches them.
/// Because these messages arrive at once, their rate has no meaning.
///
/// A publisher's messages are history if they arrive within [`BURST`](Self::BURST) after the publisher's first message.
/// Messages that arrive later, but within [`LONGEST`](Self::LONGEST), are history if their source timestamp is earlier
/// than the arrival of the first message.
#[derive(Default)]
pub(super) struct History {
    /// The publishers, with the arrival time of their first message on the monotonic clock and on the system clock.
    publishers: VecDeque<(Gid, i64, i64)>,
    /// Whether the last message was history.
    was_last: bool,
    /// Whether a message of the current window was history.
    is_in_window: bool,
    /// The number of intervals that start or end with a message of history, and their total length.
    intervals: u64,
    time: i64,
}

impl History {
    /// The time in which a publisher's history usually arrives, in nanoseconds.
    const BURST: i64 = 500_000_000;
    /// The longest time in which history arrives. After this time, a source timestamp from before the first arrival
    /// only shows that two clocks differ.
    const LONGEST: i64 = 10_000_000_000;
    /// The largest number of publishers that are remembered.
    const PUBLISHERS: usize = 256;

    /// Adds a message, and decides whether the message is history. `callback` and `now` are the arrival of the message
    /// on the monotonic clock and on the system clock. `last` is the arrival of the previous message on the monotonic
    /// clock. `source` is the source timestamp of the message, 0 if unknown.
    pub(super) fn add(&mut self, publisher: Gid, source: i64, callback: i64, now: i64, last: Option<i64>) {
        let known = self.publishers.iter().find(|(gid, ..)| *gid == publisher);
        let (_, first, first_now) = *known.unwrap_or(&(publisher, callback, now));
        if known.is_none() {
            if self.publishers.len() == Self::PUBLISHERS {
                self.publishers.pop_front();
            }
            self.publishers.push_back((publisher, callback, now));
        }
        let since = callback.saturating_sub(first);
        let is_older = source != 0 && source < first_now;
        let is_history = since < Self::BURST || is_older && since < Self::LONGEST;
        if let (true, Some(last)) = (is_history || self.was_last, last) {
            self.intervals += 1;
            self.time = self.time.saturating_add(callback.saturating_sub(last).max(0));
        }
        self.was_last = is_history;
        self.is_in_window |= is_history;
    }

    /// Returns whether a message of the window was history, and starts the next window.
    pub(super) fn end_window(&mut self) -> bool {
        std::mem::take(&mut self.is_in_window)
    }

    /// `intervals` and `active` are for all messages. Returns both without the intervals of history.
    pub(super) fn without(&self, intervals: Option<u64>, active: Duration) -> (Option<u64>, Duration) {
        (
            intervals.map(|intervals| intervals.saturating_sub(self.intervals)),
            active.saturating_sub(duration(self.time)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_publishers_than_are_known_replace_the_oldest() {
        let mut history = History::default();
        for number in 0..10_000_u32 {
            let mut gid = Gid::default();
            gid[..4].copy_from_slice(&number.to_be_bytes());
            history.add(gid, 0, i64::from(number), 0, None);
        }
        assert_eq!(history.publishers.len(), History::PUBLISHERS);
        assert!(history.publishers.iter().all(|(_, first, _)| *first >= 10_000 - 256));
    }
}
