// SPDX-License-Identifier: Apache-2.0

//! Sorts messages by their times on the selected clock.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use crate::message::Message;

/// A message, and its time on the clock of the windows (log time, publish time or header stamp). Messages are sorted by
/// this time. Messages with equal times keep the order of the bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timed {
    pub(crate) time: i64,
    /// The position in the bag, which differs for each message.
    position: u64,
    pub(crate) message: Message,
}

/// Sorts messages with a buffer of [`CAPACITY`](Self::CAPACITY) messages.
///
/// When the buffer is full, the earliest message leaves the buffer. So a message with a time far in the future waits in
/// the buffer until the end of the bag, and does not make other messages late.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The messages that arrived in the order of their times. Most bags use only this queue, which is faster than a
    /// heap.
    sorted: VecDeque<Timed>,
    /// The messages that arrived after a message with a later time.
    late: BinaryHeap<Reverse<Timed>>,
    position: u64,
}

impl Order {
    /// The largest number of messages in the buffer. A message in a recording is at most a few seconds out of order.
    pub(crate) const CAPACITY: usize = 1 << 16;

    /// Adds a message. If the buffer is full, returns the earliest message.
    pub(crate) fn push(&mut self, time: i64, message: Message) -> Option<Timed> {
        let timed = Timed { time, position: self.position, message };
        self.position += 1;
        match self.sorted.back() {
            Some(last) if *last > timed => self.late.push(Reverse(timed)),
            _ => self.sorted.push_back(timed),
        }
        if self.sorted.len() + self.late.len() > Self::CAPACITY {
            return self.pop();
        }
        None
    }

    /// Removes and returns the earliest message.
    pub(crate) fn pop(&mut self) -> Option<Timed> {
        match (self.sorted.front(), self.late.peek()) {
            (Some(sorted), Some(Reverse(late))) if late < sorted => self.late.pop().map(|late| late.0),
            (Some(_), _) => self.sorted.pop_front(),
            (None, _) => self.late.pop().map(|late| late.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ordered(times: impl IntoIterator<Item = i64>) -> Vec<(i64, u32)> {
        let mut order = Order::default();
        let mut all = vec![];
        for (number, time) in times.into_iter().enumerate() {
            let message = Message { size: number as u32, ..Message::default() };
            all.extend(order.push(time, message));
            assert!(order.sorted.len() + order.late.len() <= Order::CAPACITY);
        }
        all.extend(std::iter::from_fn(|| order.pop()));
        all.into_iter().map(|timed| (timed.time, timed.message.size)).collect()
    }

    proptest! {
        #[test]
        fn messages_leave_in_order_and_equal_times_keep_theirs(
            times in prop::collection::vec(0_i64..50, 0..200),
        ) {
            let mut expected: Vec<_> = times.iter().enumerate().map(|(at, time)| (*time, at as u32)).collect();
            expected.sort();
            prop_assert_eq!(ordered(times), expected);
        }
    }

    #[test]
    fn a_time_far_in_the_future_makes_no_other_message_late() {
        let count = 3 * Order::CAPACITY as i64;
        let times = ordered([5, i64::MAX].into_iter().chain(6..count));
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(times.last(), Some(&(i64::MAX, 1)));
        assert_eq!(ordered((0..200_000).rev()).len(), 200_000, "its memory does not grow");
    }
}
