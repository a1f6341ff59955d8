// SPDX-License-Identifier: Apache-2.0

//! The queue of messages that wait to be written. The queue is limited in bytes and in number of messages.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use topic_statistics_core::mutex::lock;

use super::topic::QueuedMessage;

pub enum Next {
    Message(QueuedMessage),
    /// No message arrived in time.
    Nothing,
    Closed,
}

pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    max_bytes: u64,
}

struct State {
    messages: VecDeque<QueuedMessage>,
    bytes: u64,
    is_closed: bool,
}

impl Queue {
    /// The maximum number of messages in the queue, even if the messages are small.
    const MAX_MESSAGES: usize = 1 << 18;
    /// The bytes that a message needs in addition to its data: at least the size of its entry in the queue.
    const OVERHEAD: u64 = 256;

    pub fn new(max_bytes: u64) -> Self {
        let state = State { messages: VecDeque::new(), bytes: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), max_bytes }
    }

    pub fn size(message: &QueuedMessage) -> u64 {
        message.data.len() as u64 + Self::OVERHEAD
    }

    /// Adds a message. Returns whether the queue had room. An empty queue accepts a message of any size.
    pub fn push(&self, message: QueuedMessage) -> bool {
        let mut state = lock(&self.state);
        let (size, count) = (Self::size(&message), state.messages.len());
        let has_room = state.bytes.saturating_add(size) <= self.max_bytes || count == 0;
        if state.is_closed || !has_room || count >= Self::MAX_MESSAGES {
            return false;
        }
        state.bytes += size;
        state.messages.push_back(message);
        self.changed.notify_one();
        true
    }

    /// Returns the first message. If the queue is empty, waits for a message until the time `until`.
    pub fn pop(&self, until: Instant) -> Next {
        let mut state = lock(&self.state);
        loop {
            if let Some(message) = state.messages.pop_front() {
                state.bytes -= Self::size(&message);
                return Next::Message(message);
            }
            if state.is_closed {
                return Next::Closed;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Next::Nothing;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }

    /// Closes the queue: new messages are refused. Messages in the queue can still be taken out.
    pub fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::topic::tests, *};
    use std::sync::Arc;

    /// Returns a function that creates messages with this number of bytes.
    fn messages() -> impl Fn(usize) -> QueuedMessage {
        let topic = Arc::new(tests::topic(0, &Arc::new(Queue::new(0))));
        move |bytes| tests::message(&topic, 1, 0, bytes)
    }

    #[test]
    fn it_is_bounded_in_bytes_and_in_number() {
        let (queue, message) = (Queue::new(10_000), messages());
        let accepted = (0..100).filter(|_| queue.push(message(744))).count();
        assert_eq!(accepted, 10, "744 bytes and the overhead");
        assert!(!queue.push(message(0)));
        let small = Queue::new(u64::MAX);
        let pushed = (0..Queue::MAX_MESSAGES + 5).filter(|_| small.push(message(0))).count();
        assert_eq!(pushed, Queue::MAX_MESSAGES);
        // A message larger than the queue is accepted if the queue is empty.
        let queue = Queue::new(1000);
        assert!(queue.push(message(5000)) && !queue.push(message(0)));
        assert!(matches!(queue.pop(Instant::now()), Next::Message(large) if large.data.len() == 5000));
        assert!(queue.push(message(0)), "the room of the large message is free again");
    }

    #[test]
    fn what_waits_when_it_is_closed_is_still_returned() {
        let (queue, message) = (Queue::new(10_000), messages());
        assert!(matches!(queue.pop(Instant::now()), Next::Nothing));
        assert!(queue.push(message(1)));
        queue.close();
        assert!(!queue.push(message(2)));
        assert!(matches!(queue.pop(Instant::now()), Next::Message(first) if first.data.len() == 1));
        assert!(matches!(queue.pop(Instant::now() + Duration::from_secs(60)), Next::Closed));
    }
}
