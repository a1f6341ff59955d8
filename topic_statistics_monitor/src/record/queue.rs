// SPDX-License-Identifier: Apache-2.0

//! The queue of messages that wait to be written. The queue is limited in bytes and in number of messages.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use topic_statistics_core::mutex::lock;

/// An element of the queue.
pub trait Queued {
    /// Returns the size of the element in bytes.
    fn bytes(&self) -> usize;
}

/// The result of [`Queue::pop`].
pub enum Next<M> {
    Message(M),
    /// No message arrived in time.
    Nothing,
    /// The queue is closed, and has no message left.
    Closed,
}

/// The queue of messages that wait to be written.
pub struct Queue<M> {
    state: Mutex<State<M>>,
    changed: Condvar,
    max_bytes: u64,
}

struct State<M> {
    messages: VecDeque<M>,
    bytes: u64,
    is_closed: bool,
}

impl<M: Queued> Queue<M> {
    /// The maximum number of messages in the queue, even if the messages are small.
    const MAX_MESSAGES: usize = 1 << 18;
    /// The bytes that a message needs in addition to its data: at least the size of its entry in the queue.
    const OVERHEAD: u64 = 256;

    pub fn new(max_bytes: u64) -> Self {
        let state = State { messages: VecDeque::new(), bytes: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), max_bytes }
    }

    /// Returns the bytes that a message needs in memory.
    pub fn size(message: &M) -> u64 {
        message.bytes() as u64 + Self::OVERHEAD
    }

    /// Adds a message. Returns whether the queue had room. An empty queue accepts a message of any size.
    pub fn push(&self, message: M) -> bool {
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
    pub fn pop(&self, until: Instant) -> Next<M> {
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

    /// Returns whether the queue is closed, so that new messages are refused.
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
    use super::*;

    /// A message with this number of bytes.
    struct Message(usize);

    impl Queued for Message {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn it_is_bounded_in_bytes_and_in_number() {
        let queue = Queue::new(10_000);
        let accepted = (0..100).filter(|_| queue.push(Message(744))).count();
        assert_eq!(accepted, 10, "744 bytes and the overhead");
        assert!(!queue.push(Message(0)));
        let small = Queue::new(u64::MAX);
        let pushed = (0..Queue::<Message>::MAX_MESSAGES + 5).filter(|_| small.push(Message(0))).count();
        assert_eq!(pushed, Queue::<Message>::MAX_MESSAGES);
        // A message larger than the queue is accepted if the queue is empty.
        let queue = Queue::new(1000);
        assert!(queue.push(Message(5000)) && !queue.push(Message(0)));
        assert!(matches!(queue.pop(Instant::now()), Next::Message(Message(5000))));
        assert!(queue.push(Message(0)), "the room of the large message is free again");
    }

    #[test]
    fn what_waits_when_it_is_closed_is_still_returned() {
        let queue = Queue::new(10_000);
        assert!(matches!(queue.pop(Instant::now()), Next::Nothing));
        assert!(queue.push(Message(1)));
        queue.close();
        assert!(!queue.push(Message(2)));
        assert!(matches!(queue.pop(Instant::now()), Next::Message(Message(1))));
        assert!(matches!(queue.pop(Instant::now() + Duration::from_secs(60)), Next::Closed));
    }
}
