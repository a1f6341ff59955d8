// SPDX-License-Identifier: Apache-2.0

//! Messages in the order of a clock.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

use crate::message::Message;

/// A message with its time on the clock of the windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) time: i64,
    /// The position in the bag: messages of equal times keep their order.
    position: u64,
    pub(crate) message: Message,
}

impl Timed {
    fn key(&self) -> (i64, u64) {
        (self.time, self.position)
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Puts messages in order, as far as [`CAPACITY`](Self::CAPACITY) messages reach.
///
/// The earliest message leaves when there is no room. So a message with a time far in the future waits until the end,
/// and does not make the others late.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// In order. Messages of most bags go through it, without a heap's work.
    sorted: VecDeque<Timed>,
    /// Messages earlier than one before them.
    late: BinaryHeap<Reverse<Timed>>,
    position: u64,
}

impl Order {
    /// How many messages wait. Recorders write messages of a few seconds out of order at most.
    pub(crate) const CAPACITY: usize = 1 << 16;

    /// Adds a message. Returns the earliest one if there is no room for it.
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

    /// Returns the earliest message.
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
    }

    #[test]
    fn its_memory_does_not_grow() {
        let mut order = Order::default();
        for time in (0..200_000).rev() {
            order.push(time, Message::default());
            assert!(order.sorted.len() + order.late.len() <= Order::CAPACITY);
        }
    }
}
