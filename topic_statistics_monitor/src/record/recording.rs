// SPDX-License-Identifier: Apache-2.0

//! The state that the callbacks, the writer and the reports of a recording share.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
};

use rclrs::{Clock, MessageTypeName};
use topic_statistics_core::mutex::lock;

use super::{error::RecordError, queue::Queue, topic::RecordedTopic};

pub struct Recording {
    pub queue: Arc<Queue>,
    /// The clock of the log times. `None` without simulated time.
    clock: Option<Clock>,
    topics: Mutex<BTreeMap<(String, String), Arc<RecordedTopic>>>,
    has_ended: AtomicBool,
}

impl Recording {
    /// The maximum number of recorded topics. The monitor can watch the same number of topics.
    const MAX_TOPICS: usize = 10_000;

    /// Creates a recording whose queue has room for `max_cache` bytes. `clock` is that of a node on simulated time.
    pub fn new(max_cache: u64, clock: Option<Clock>) -> Self {
        let queue = Arc::new(Queue::new(max_cache));
        Self { queue, clock, topics: Mutex::default(), has_ended: AtomicBool::new(false) }
    }

    /// Returns the recorded topic with this name and type, for a new subscription. Adds the topic if it is new.
    pub fn topic(
        &self,
        name: &str,
        message_type: &MessageTypeName,
    ) -> Result<Arc<RecordedTopic>, RecordError> {
        let mut topics = lock(&self.topics);
        let key = (name.to_owned(), message_type.to_string());
        if let Some(topic) = topics.get(&key) {
            topic.pause();
            return Ok(Arc::clone(topic));
        }
        if topics.len() >= Self::MAX_TOPICS {
            return Err(RecordError::TooManyTopics { limit: Self::MAX_TOPICS });
        }
        let topic = RecordedTopic::new(name, message_type, topics.len(), &self.queue, self.clock.clone())?;
        let topic = Arc::new(topic);
        if self.queue.is_closed() {
            topic.close();
        }
        topics.insert(key, Arc::clone(&topic));
        Ok(topic)
    }

    pub fn topics(&self) -> Vec<Arc<RecordedTopic>> {
        lock(&self.topics).values().cloned().collect()
    }

    /// Ends the recording of all topics. Messages received after this call are neither recorded nor counted as lost.
    pub fn close(&self) {
        self.topics().iter().for_each(|topic| topic.close());
        self.queue.close();
    }

    pub fn set_ended(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Returns whether the recording has ended: at a limit, by an error, or at the end of the run.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_bounded_and_known_ones_go_on() {
        let recording = Recording::new(1000, None);
        let text: MessageTypeName = "std_msgs/msg/String".try_into().unwrap();
        let topic = |name: &str| recording.topic(name, &text);
        let first = topic("/0").unwrap();
        for index in 1..Recording::MAX_TOPICS {
            lock(&recording.topics).insert((format!("/{index}"), text.to_string()), Arc::clone(&first));
        }
        let error = topic("/new").err().unwrap();
        assert!(matches!(error, RecordError::TooManyTopics { limit: Recording::MAX_TOPICS }), "{error}");
        assert!(Arc::ptr_eq(&topic("/1").unwrap(), &first));
    }
}
