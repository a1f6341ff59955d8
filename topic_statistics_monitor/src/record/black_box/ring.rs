// SPDX-License-Identifier: Apache-2.0

//! The messages that the black box keeps in memory. The caller passes all times, so this module reads no clock.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

use topic_statistics_core::record::transport::Gid;

use crate::record::{topic::QueuedMessage, totals::Losses};

/// The last messages of all topics, limited in bytes. For each publisher of a latched topic, such as `/tf_static`, the
/// ring also keeps the last message that was removed from `messages`.
pub struct Ring {
    messages: VecDeque<QueuedMessage>,
    /// For each publisher of a latched topic, the last message removed from `messages`. The key has the topic's number.
    latched: BTreeMap<(usize, Gid), QueuedMessage>,
    /// The size of `messages` and `latched`, in bytes.
    bytes: u64,
    latched_bytes: u64,
    max_bytes: u64,
    /// All messages received after this time are in the ring.
    complete_since: Instant,
    is_cut: bool,
    /// For each topic (by its number), the losses up to the last message of the topic that was removed from `messages`.
    before: BTreeMap<usize, Losses>,
}

impl Ring {
    const MAX_LATCHED: usize = 4096;

    /// Creates a ring that has room for `max_bytes` bytes. Messages are received from `now` on.
    pub fn new(max_bytes: u64, now: Instant) -> Self {
        Self {
            messages: VecDeque::new(),
            latched: BTreeMap::new(),
            bytes: 0,
            latched_bytes: 0,
            max_bytes,
            complete_since: now,
            is_cut: false,
            before: BTreeMap::new(),
        }
    }

    /// Adds a message. If the ring is full, removes the oldest messages.
    pub fn push(&mut self, message: QueuedMessage) {
        self.bytes += message.size();
        self.messages.push_back(message);
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.complete_since = self.complete_since.max(oldest.received);
            self.is_cut = true;
            self.leave(oldest);
        }
    }

    /// Removes the messages received before this time. The last message of each publisher of a latched topic is kept.
    pub fn drop_before(&mut self, time: Option<Instant>) {
        while self.messages.front().is_some_and(|oldest| time.is_some_and(|time| oldest.received < time)) {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.leave(oldest);
        }
    }

    fn leave(&mut self, message: QueuedMessage) {
        self.before.insert(message.topic.index, message.losses);
        let size = message.size();
        self.bytes -= size;
        if !message.topic.is_latched() {
            return;
        }
        (self.bytes, self.latched_bytes) = (self.bytes + size, self.latched_bytes + size);
        if let Some(earlier) = self.latched.insert((message.topic.index, message.publisher), message) {
            self.forget(&earlier);
        }
        // Latched messages use at most half of the memory, so that they do not displace all other messages.
        while self.latched_bytes > self.max_bytes / 2 || self.latched.len() > Self::MAX_LATCHED {
            let oldest = self.latched.iter().min_by_key(|(_, message)| message.received);
            let Some(oldest) = oldest.map(|(key, _)| *key).and_then(|key| self.latched.remove(&key)) else {
                break;
            };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, latched: &QueuedMessage) {
        let size = latched.size();
        (self.bytes, self.latched_bytes) = (self.bytes - size, self.latched_bytes - size);
    }

    pub fn messages(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.messages.iter()
    }

    /// Sets the log times of older latched messages to the log time of the first message in `messages`. Otherwise a
    /// player of the file would wait for the time between two such messages, perhaps for an hour. The times of
    /// publication are not changed.
    pub fn set_latched_times(&mut self) {
        let start = self.messages.front().map_or(0, |first| first.log_time);
        self.latched.values_mut().for_each(|message| message.log_time = message.log_time.max(start));
    }

    pub fn latched(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.latched.values()
    }

    pub fn complete_since(&self) -> Instant {
        self.complete_since
    }

    /// Returns whether a full ring removed messages. If so, `complete_since` is when the last of the removed messages
    /// was received.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub fn losses_before(&self, topic: usize) -> Losses {
        self.before.get(&topic).copied().unwrap_or(Losses::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::queue::Queue;
    use crate::record::topic::{tests, RecordedTopic};
    use rclrs::{QoSProfile, TopicEndpointInfo};
    use std::{sync::Arc, time::Duration};

    /// The size in memory of a message with 744 bytes of data.
    const SIZE: u64 = 1000;

    fn topic(index: usize, qos_profile: QoSProfile) -> Arc<RecordedTopic> {
        let topic = tests::topic(index, &Arc::new(Queue::new(0)));
        let (node_name, node_namespace) = ("talker".to_owned(), "/".to_owned());
        let topic_type = topic.message_type.clone();
        topic.set_publishers(&[TopicEndpointInfo { node_name, node_namespace, topic_type, qos_profile }]);
        Arc::new(topic)
    }

    /// Returns message `number` of a publisher, received `number` seconds after `start`.
    fn message(topic: &Arc<RecordedTopic>, publisher: u8, number: u64, start: Instant) -> QueuedMessage {
        let received = start + Duration::from_secs(number);
        QueuedMessage { received, ..tests::message(topic, publisher, number, 744) }
    }

    fn numbers<'a>(messages: impl Iterator<Item = &'a QueuedMessage>) -> Vec<u64> {
        messages.map(|message| message.number.unwrap()).collect()
    }

    /// Returns a ring that has room for this number of messages, and also two topics and the start time of the ring.
    fn ring(messages: u64) -> (Ring, [Arc<RecordedTopic>; 2], Instant) {
        let start = Instant::now();
        let map = topic(1, QoSProfile::topics_default().transient_local());
        (Ring::new(messages * SIZE + 999, start), [topic(0, QoSProfile::sensor_data_default()), map], start)
    }

    #[test]
    fn it_keeps_what_was_received_since_a_time() {
        let (mut ring, [imu, _], start) = ring(100);
        (0..50).for_each(|number| ring.push(message(&imu, 1, number, start)));
        ring.drop_before(None);
        assert_eq!(ring.messages().count(), 50);
        ring.drop_before(Some(start + Duration::from_secs(20)));
        assert_eq!(numbers(ring.messages()), Vec::from_iter(20..50));
        assert_eq!((ring.bytes, ring.latched().count()), (30 * SIZE, 0));
        assert_eq!((ring.complete_since(), ring.is_cut()), (start, false));
        assert_eq!(ring.losses_before(0).in_transport, Some(19));
        assert_eq!(ring.losses_before(1), Losses::NONE);
    }

    #[test]
    fn its_bound_cuts_the_time_and_it_says_so() {
        let (mut ring, [imu, _], start) = ring(10);
        (0..10).for_each(|number| ring.push(message(&imu, 1, number, start)));
        assert!(!ring.is_cut());
        (10..15).for_each(|number| ring.push(message(&imu, 1, number, start)));
        assert_eq!(numbers(ring.messages()), Vec::from_iter(5..15));
        assert_eq!((ring.complete_since(), ring.is_cut()), (start + Duration::from_secs(4), true));
        // A message that is larger than the ring is not kept.
        ring.push(QueuedMessage { data: vec![0; 20_000], ..message(&imu, 1, 15, start) });
        assert_eq!((ring.messages().count(), ring.bytes), (0, 0));
    }

    #[test]
    fn last_latched_message_of_each_publisher_stays() {
        let (mut ring, [imu, map], start) = ring(100);
        for (publisher, number) in [(1, 0), (2, 1), (1, 2)] {
            ring.push(message(&map, publisher, number, start));
        }
        (3..50).for_each(|number| ring.push(message(&imu, 1, number, start)));
        ring.push(message(&map, 1, 50, start));
        ring.drop_before(Some(start + Duration::from_secs(40)));
        ring.set_latched_times();
        assert!(ring.latched().all(|message| message.log_time == 40), "the log time of the first message");
        assert_eq!((numbers(ring.latched()), ring.messages().count()), (vec![2, 1], 11));
        assert_eq!(ring.bytes, 13 * SIZE);
        ring.drop_before(Some(start + Duration::from_secs(100)));
        assert_eq!(numbers(ring.latched()), [50, 1]);
        assert_eq!((ring.bytes, ring.latched_bytes), (2 * SIZE, 2 * SIZE));
    }

    #[test]
    fn latched_messages_leave_room_for_others() {
        let (mut ring, [imu, map], start) = ring(10);
        (0..20).for_each(|number| ring.push(message(&map, number as u8, number, start)));
        (20..40).for_each(|number| ring.push(message(&imu, 1, number, start)));
        assert_eq!(numbers(ring.latched()), Vec::from_iter(15..20));
        assert_eq!(numbers(ring.messages()), Vec::from_iter(35..40));
        assert_eq!(ring.bytes, 10 * SIZE);
    }

    #[test]
    fn latched_publishers_have_a_bound() {
        let (mut ring, [_, map], start) = ring(20_000);
        for number in 0..4100_u64 {
            let mut message = message(&map, 0, number, start);
            message.publisher[..8].copy_from_slice(&number.to_be_bytes());
            ring.push(message);
        }
        ring.drop_before(Some(start + Duration::from_secs(4100)));
        assert_eq!(numbers(ring.latched()), Vec::from_iter(4..4100), "the oldest are dropped");
        assert_eq!((ring.bytes, ring.latched_bytes), (4096 * SIZE, 4096 * SIZE));
    }
}
