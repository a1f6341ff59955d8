// SPDX-License-Identifier: Apache-2.0

//! The queue of messages that wait to be written. The queue is limited in bytes and in number of messages.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use topic_statistics_core::mutex::lock;

pub enum Next<T> {
    Message(T),
    /// No message arrived before `until`.
    Nothing,
    Closed,
}

pub struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    max_bytes: u64,
}

struct State<T> {
    /// The messages, with their sizes in bytes.
    messages: VecDeque<(u64, T)>,
    bytes: u64,
    is_closed: bool,
}

impl<T> Queue<T> {
    /// The maximum number of messages in the queue, even if the messages are small.
    const MAX_MESSAGES: usize = 1 << 18;

    pub fn new(max_bytes: u64) -> Self {
        let state = State { messages: VecDeque::new(), bytes: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), max_bytes }
    }

    /// Adds a message of `size` bytes. Returns whether the queue had room. An empty queue accepts a message of any size.
    pub fn push(&self, size: u64, message: T) -> bool {
        let mut state = lock(&self.state);
        let count = state.messages.len();
        let has_room = state.bytes.saturating_add(size) <= self.max_bytes || count == 0;
        if state.is_closed || !has_room || count >= Self::MAX_MESSAGES {
            return false;
        }
        state.bytes += size;
        state.messages.push_back((size, message));
        self.changed.notify_one();
        true
    }

    /// Returns the first message. If the queue is empty, waits for a message until the time `until`.
    pub fn pop(&self, until: Instant) -> Next<T> {
        let mut state = lock(&self.state);
        loop {
            if let Some((size, message)) = state.messages.pop_front() {
                state.bytes -= size;
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
    use super::*;

    #[test]
    fn it_is_bounded_in_bytes_and_in_number() {
        let queue = Queue::new(10_000);
        assert_eq!((0..100).filter(|_| queue.push(1000, ())).count(), 10);
        assert!(!queue.push(1, ()));
        let small = Queue::new(u64::MAX);
        let most = Queue::<()>::MAX_MESSAGES;
        assert_eq!((0..most + 5).filter(|_| small.push(1, ())).count(), most);
        // A message larger than the queue is accepted if the queue is empty.
        let queue = Queue::new(1000);
        assert!(queue.push(5000, "large") && !queue.push(1, "small"));
        assert!(matches!(queue.pop(Instant::now()), Next::Message("large")));
        assert!(queue.push(1, "small"), "the room of the large message is free again");
    }

    #[test]
    fn what_waits_when_it_is_closed_is_still_returned() {
        let queue = Queue::new(10_000);
        assert!(matches!(queue.pop(Instant::now()), Next::Nothing));
        assert!(queue.push(1, "first"));
        queue.close();
        assert!(!queue.push(1, "second"));
        assert!(matches!(queue.pop(Instant::now()), Next::Message("first")));
        assert!(matches!(queue.pop(Instant::now() + Duration::from_secs(60)), Next::Closed));
    }
}
