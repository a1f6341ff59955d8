// SPDX-License-Identifier: Apache-2.0

//! The history of transient local publishers: messages that were published before the subscription matched them.

use std::time::Duration;

use crate::record::{clocks::clock::duration, topics::transport::Gid};

/// Recognises the history that transient local publishers deliver at matching, all at once. It has no rate.
///
/// A publisher's messages are history if they arrive within [`BURST`](Self::BURST) of its first one; and up to
/// [`LONGEST`](Self::LONGEST), if their source timestamp is earlier than that first arrival.
#[derive(Default)]
pub(super) struct History {
    /// The publishers, with the arrival of the first message on the monotonic and on the system clock.
    publishers: Vec<(Gid, i64, i64)>,
    /// Where the next publisher is kept once there is no room.
    oldest: usize,
    /// Whether the last message was history.
    was_last: bool,
    /// Whether a message of the window under way was.
    is_in_window: bool,
    /// The intervals that history begins or ends, and their time.
    intervals: u64,
    time: i64,
}

impl History {
    /// How long a publisher's history takes to arrive, in nanoseconds.
    const BURST: i64 = 500_000_000;
    /// How long it takes at most: afterwards, an earlier source timestamp shows that two clocks differ.
    const LONGEST: i64 = 10_000_000_000;
    /// How many publishers are known.
    const PUBLISHERS: usize = 256;

    /// Adds a message. `callback` and `now` are its arrival on the monotonic and on the system clock, `last` is that
    /// of the message before; `source` is its source timestamp, 0 if unknown.
    pub(super) fn add(&mut self, publisher: Gid, source: i64, callback: i64, now: i64, last: Option<i64>) {
        let known = self.publishers.iter().find(|(gid, ..)| *gid == publisher);
        let (_, first, first_now) = *known.unwrap_or(&(publisher, callback, now));
        if known.is_none() {
            match self.publishers.len() < Self::PUBLISHERS {
                true => self.publishers.push((publisher, callback, now)),
                false => {
                    self.publishers[self.oldest] = (publisher, callback, now);
                    self.oldest = (self.oldest + 1) % Self::PUBLISHERS;
                }
            }
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

    /// Subtracts the intervals and the time of history from those of all messages.
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
