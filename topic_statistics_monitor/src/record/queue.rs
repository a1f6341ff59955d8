// SPDX-License-Identifier: Apache-2.0

//! The messages that wait to be written: bounded in bytes and in number.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use topic_statistics_core::{mutex::lock, record::transport::Gid};

use super::{topic::RecordedTopic, totals::Losses};

/// A message that waits to be written. Times are in nanoseconds since the epoch.
pub struct QueuedMessage {
    pub topic: Arc<RecordedTopic>,
    pub publisher: Gid,
    /// The publication sequence number. `None` if the middleware provides none.
    pub number: Option<u64>,
    /// The received timestamp.
    pub log_time: u64,
    /// The source timestamp.
    pub publish_time: u64,
    pub data: Vec<u8>,
    /// The losses of the topic before this message.
    pub losses: Losses,
}

impl QueuedMessage {
    /// What a message needs besides its data, in bytes: at least as much as its place in the queue.
    const OVERHEAD: u64 = 256;

    fn size(&self) -> u64 {
        self.data.len() as u64 + Self::OVERHEAD
    }
}

/// What the writer finds.
pub enum Next {
    Message(QueuedMessage),
    /// Nothing in time.
    Nothing,
    /// There is no message, and none will come.
    Closed,
}

/// The messages that wait to be written.
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    max_bytes: u64,
}

#[derive(Default)]
struct State {
    messages: VecDeque<QueuedMessage>,
    bytes: u64,
    is_closed: bool,
}

impl Queue {
    /// How many messages wait at most, however small they are.
    const MAX_MESSAGES: usize = 1 << 18;

    pub fn new(max_bytes: u64) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), max_bytes }
    }

    /// Adds a message. Returns whether there was room. A message that is larger than the whole queue has room if it is the
    /// only one.
    pub fn push(&self, message: QueuedMessage) -> bool {
        let mut state = lock(&self.state);
        let (size, count) = (message.size(), state.messages.len());
        let has_room = state.bytes.saturating_add(size) <= self.max_bytes || count == 0;
        if state.is_closed || !has_room || count >= Self::MAX_MESSAGES {
            return false;
        }
        state.bytes += size;
        state.messages.push_back(message);
        self.changed.notify_one();
        true
    }

    /// Waits for a message, until a time.
    pub fn pop(&self, until: Instant) -> Next {
        let mut state = lock(&self.state);
        loop {
            if let Some(message) = state.messages.pop_front() {
                state.bytes -= message.size();
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

    /// Refuses messages from now on. Those that wait stay.
    pub fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::topic::tests::topic;

    fn message(topic: &Arc<RecordedTopic>, bytes: usize) -> QueuedMessage {
        QueuedMessage {
            topic: Arc::clone(topic),
            publisher: Gid::default(),
            number: None,
            log_time: bytes as u64,
            publish_time: 0,
            data: vec![0; bytes],
            losses: Losses::default(),
        }
    }

    #[test]
    fn it_is_bounded_in_bytes_and_in_number() {
        let queue = Arc::new(Queue::new(10_000));
        let topic = topic(&queue);
        let accepted = |bytes| (0..100).filter(|_| queue.push(message(&topic, bytes))).count() as u64;
        assert_eq!(accepted(744), 10, "744 bytes and the overhead");
        assert!(!queue.push(message(&topic, 0)));

        let small = Queue::new(u64::MAX);
        let pushed = (0..Queue::MAX_MESSAGES + 5).filter(|_| small.push(message(&topic, 0))).count();
        assert_eq!(pushed, Queue::MAX_MESSAGES);
    }

    #[test]
    fn a_message_larger_than_the_queue_passes_alone() {
        let queue = Arc::new(Queue::new(1000));
        let topic = topic(&queue);
        assert!(queue.push(message(&topic, 5000)) && !queue.push(message(&topic, 0)));
        assert!(matches!(queue.pop(Instant::now()), Next::Message(of) if of.data.len() == 5000));
        assert!(queue.push(message(&topic, 0)), "its bytes are free again");
    }

    #[test]
    fn what_waits_when_it_is_closed_is_still_returned() {
        let queue = Arc::new(Queue::new(10_000));
        let topic = topic(&queue);
        assert!(matches!(queue.pop(Instant::now()), Next::Nothing));
        assert!(queue.push(message(&topic, 1)));
        queue.close();
        assert!(!queue.push(message(&topic, 2)));
        assert!(matches!(queue.pop(Instant::now()), Next::Message(of) if of.data.len() == 1));
        assert!(matches!(queue.pop(Instant::now() + Duration::from_secs(60)), Next::Closed));
    }
}
